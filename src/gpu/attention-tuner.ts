import type { AttentionShape } from './attention.ts';
import type { AttentionChoice, AttentionForm } from './attention-choice.ts';
import { type AttentionTimes, timeAttention } from './attention-timer.ts';
import { type DeviceWatch, TrialLost } from './device-watch.ts';
import { attentionTrialName, KernelLost, type SelfTest } from './self-test.ts';
import { fastest, type TunerBudget } from './tuner-pick.ts';

/**
 * The fastest form of attention for prefill, and for decoding: all give the same bits, so any two go together. `forms`
 * begin with the one that is taken without a tuner. Rejects with KernelLost.
 */
export async function tuneAttention(
  watch: DeviceWatch,
  test: SelfTest,
  shape: AttentionShape,
  forms: readonly AttentionForm[],
  budget: TunerBudget,
): Promise<AttentionChoice> {
  const timed: { form: AttentionForm; times: AttentionTimes }[] = [];
  for (const form of forms) {
    const start = performance.now();
    // Whole, parts.
    if (forms.length === 1 || !budget.fits(2)) break;
    if (!(await test.tryAttention(shape, form))) continue;
    const times = await timeAttention(watch, shape, form).catch((error: unknown) => {
      if (error instanceof TrialLost) throw new KernelLost([attentionTrialName(shape, form)], error.message);
      throw error;
    });
    timed.push({ form, times });
    budget.learn(2, performance.now() - start);
  }
  const [base, ...others] = timed;
  const best = (of: keyof AttentionChoice): AttentionForm => {
    if (!base) return forms[0]!;
    const [own, ...rest] = [base, ...others].map(({ times }) => new Map([[1, times[of]]]));
    const chosen = fastest(own!, rest);
    return chosen === undefined ? base.form : others[chosen]!.form;
  };
  return { whole: best('whole'), parts: best('parts') };
}
