import type { AttentionShape } from './attention.ts';
import type { AttentionForm } from './attention-choice.ts';
import { tryAttention } from './attention-trial.ts';
import { type DeviceWatch, TrialLost } from './device-watch.ts';
import { tryEncoderEmbedding } from './encoder-trials.ts';
import { expertTrials } from './experts-trial.ts';
import type { KernelNeeds } from './kernel-needs.ts';
import { KernelTrial } from './kernel-trial.ts';
import type { LinearChoice } from './linear-choice.ts';
import { LinearKernel } from './linear-kernel.ts';
import { type LinearUse, linearUseName, linearUses, tryLinear } from './linear-trial.ts';
import { type LinearForm, variantName } from './linear-variant.ts';
import { ROW_TRIALS, tryEmbedding } from './row-trials.ts';
import { trySampler } from './sampler-trial.ts';
import type { MatrixFormat } from './weight-format.ts';

/** When a kernel counts as hanging: others that compile beside it may keep a slow machine busy for long. */
const TRIAL_MS = 60_000;

/** What a variant of a kernel came to on this adapter. */
export interface KernelResult {
  readonly name: string;
  /** Why it must not be used; absent: it passed. */
  readonly why?: string;
  /** The device was lost with it: other kernels of the same variant aren't tried. */
  readonly lost?: true;
  readonly ms: number;
}

/** A kernel that nothing can stand in for is wrong on this adapter: the message is a sentence for the user. */
export class KernelFailure extends Error {
  override readonly name = 'KernelFailure';
}

/** The device was lost, or hung, while one of these kernels was tried or timed: they must not be tried again. */
export class KernelLost extends Error {
  override readonly name = 'KernelLost';
  readonly results: readonly KernelResult[];

  constructor(kernels: readonly string[], why: string) {
    super(`while kernel ${kernels.join(', ')} was tried: ${why}`);
    this.results = kernels.map((name) => ({ name, why, lost: true, ms: 0 }));
  }
}

interface Trial {
  readonly name: string;
  run(trial: KernelTrial): Promise<void>;
}

/**
 * Tries kernels on a device against their CPU references, on small shapes, each once. What `known` says of a name is
 * taken as it is.
 */
export class SelfTest {
  readonly #watch: DeviceWatch;
  readonly #results = new Map<string, KernelResult>();
  readonly #onResult: (result: KernelResult) => void;

  constructor(
    watch: DeviceWatch,
    known: readonly KernelResult[] = [],
    onResult: (result: KernelResult) => void = () => {},
  ) {
    this.#watch = watch;
    this.#onResult = onResult;
    for (const result of known) this.#results.set(result.name, result);
  }

  get results(): readonly KernelResult[] {
    return [...this.#results.values()];
  }

  /**
   * Compiles a choice's variants: those of several products in parallel, where this is called for all at once. Rejects
   * with TrialLost, which doesn't tell whose fault it is.
   */
  async compile(format: MatrixFormat, form: LinearForm, choice: LinearChoice): Promise<void> {
    const trial = new KernelTrial(this.#watch, TRIAL_MS);
    const untried = linearUses(format, form, choice).filter(
      (use) => !this.#results.has(linearUseName(use)) && !this.#lostLike(use),
    );
    // What doesn't compile says so again when it is tried.
    await Promise.allSettled(
      untried.map(({ variant }) => trial.within(LinearKernel.compile(trial.gpu, format, variant, form))),
    );
    trial.close();
    this.#watch.check();
  }

  /** Why a choice must not be used; undefined: each of its variants passed. Rejects with KernelLost. */
  async tryChoice(format: MatrixFormat, form: LinearForm, choice: LinearChoice): Promise<string | undefined> {
    for (const use of linearUses(format, form, choice)) {
      const lost = this.#lostLike(use);
      if (lost) return `kernel ${lost.name}: ${lost.why}`;
      const { name, why } = await this.#try(this.#linear(use));
      if (why !== undefined) return `kernel ${name}: ${why}`;
    }
    return undefined;
  }

  /**
   * Tries all kernels but products, of attention the form that is taken by default; all at once where `careful` doesn't
   * hold: most of it is compiling. Rejects with KernelFailure where one is wrong: each is the only one of its kind.
   */
  async tryOthers(needs: KernelNeeds, attention: AttentionForm, careful: boolean): Promise<void> {
    const trials = [attentionTrial(needs.attention, attention), ...otherTrials(needs)];
    const results: KernelResult[] = [];
    if (careful) for (const trial of trials) results.push(await this.#try(trial));
    else results.push(...(await Promise.all(trials.map((trial) => this.#try(trial)))));
    const wrong = results.find(({ why }) => why !== undefined);
    if (wrong) {
      throw new KernelFailure(`this GPU computes kernel ${wrong.name} wrong, so nothing is served: ${wrong.why}`);
    }
  }

  /** Whether a form of attention may be used. Rejects with KernelLost. */
  async tryAttention(shape: AttentionShape, form: AttentionForm): Promise<boolean> {
    return (await this.#try(attentionTrial(shape, form))).why === undefined;
  }

  /** A kernel of this variant, whatever its form and format, by which a device was lost. */
  #lostLike({ variant }: LinearUse): KernelResult | undefined {
    const name = variantName(variant);
    return this.results.find((result) => result.lost && result.name.split(' ').includes(name));
  }

  #linear(use: LinearUse): Trial {
    return { name: linearUseName(use), run: (trial) => tryLinear(trial, use) };
  }

  async #try({ name, run }: Trial): Promise<KernelResult> {
    const known = this.#results.get(name);
    if (known) return known;
    const trial = new KernelTrial(this.#watch, TRIAL_MS);
    const start = performance.now();
    let why: string | undefined;
    try {
      await trial.within(run(trial));
    } catch (error) {
      why = (error as Error).message;
      if (error instanceof TrialLost) throw new KernelLost([name], why);
    } finally {
      trial.close();
    }
    const ms = performance.now() - start;
    const result = { name, ...(why === undefined ? {} : { why }), ms };
    this.#results.set(name, result);
    this.#onResult(result);
    return result;
  }
}

/** How many kernels but products and attention a model's self-test tries. */
export function otherCount(needs: KernelNeeds): number {
  return otherTrials(needs).length;
}

/** The name of a form of attention among results. */
export function attentionTrialName({ kvFormat, cap }: AttentionShape, form: AttentionForm): string {
  return `attention ${kvFormat}${cap === undefined ? '' : ' capped'} ${form}`;
}

function attentionTrial(shape: AttentionShape, form: AttentionForm): Trial {
  return { name: attentionTrialName(shape, form), run: (trial) => tryAttention(trial, shape, form) };
}

function otherTrials({ attention, embeddings, vocabulary, rows, experts }: KernelNeeds): Trial[] {
  return [
    ...embeddings.map(({ format, of }) => ({
      name: `embedding of ${of} ${format}`,
      run: (trial: KernelTrial) =>
        of === 'encoder rows' ? tryEncoderEmbedding(trial, format) : tryEmbedding(trial, format, of),
    })),
    ...(vocabulary === undefined
      ? []
      : [{ name: 'sampler', run: (trial: KernelTrial) => trySampler(trial, vocabulary) }]),
    ...rows.map((kernel) => ({ name: kernel, run: (trial: KernelTrial) => ROW_TRIALS[kernel](trial, attention) })),
    ...(experts ? expertTrials(experts) : []),
  ];
}
