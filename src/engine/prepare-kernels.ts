import { ATTENTION_FORMS, DEFAULT_ATTENTION } from '../gpu/attention-choice.ts';
import { forcedKernel } from '../gpu/choice-name.ts';
import type { KernelChoices } from '../gpu/kernel-choices.ts';
import type { KernelNeeds } from '../gpu/kernel-needs.ts';
import { checkForced, kernelOffers, PLAIN_OFFERS } from '../gpu/kernel-offers.ts';
import { defaultChoice } from '../gpu/linear-choice.ts';
import { linearUseName, linearUses } from '../gpu/linear-trial.ts';
import { attentionTrialName, KernelLost, type KernelResult } from '../gpu/self-test.ts';
import { shaderVersion } from '../gpu/shader-version.ts';
import { Tuner } from '../gpu/tuner.ts';
import { type TunerKey, tunerKey } from '../gpu/tuner-key.ts';
import { decodeRecord, encodeRecord, type TunerRecord } from '../gpu/tuner-record.ts';
import type { KernelReport } from './kernel-report.ts';
import type { KernelSetup } from './kernel-setup.ts';
import type { TunerStore } from './tuner-store.ts';

/** How long a start waits for another tab that tries the same kernels. */
const WAIT_MS = 30_000;

/** What earlier devices of this start were lost by. */
export interface LostKernels {
  readonly results: readonly KernelResult[];
  /** One kernel at a time, so that another loss tells by what. */
  readonly careful: boolean;
  /** Too many were lost: nothing but the plain path is tried. */
  readonly plain: boolean;
}

export interface PreparedKernels {
  readonly choices: KernelChoices;
  readonly report: () => KernelReport;
  /** Once a model is loaded: tries what it asked for and nothing foresaw. False: load it again. */
  settle(): Promise<boolean>;
}

/**
 * Chooses the kernels of a model on `device`, by what is kept or by trying them. Rejects with RangeError where
 * `setup.kernel` names none that the model can have, with KernelFailure where the adapter computes wrong, with KernelLost
 * or TrialLost where the device is lost.
 */
export async function prepareKernels(
  device: GPUDevice,
  needs: KernelNeeds,
  setup: KernelSetup,
  lost: LostKernels,
): Promise<PreparedKernels> {
  const { tune, precision, totalMs, onProgress, signal } = setup;
  const forced = setup.kernel === undefined ? undefined : forcedKernel(setup.kernel, precision);
  if (forced) checkForced(kernelOffers(device, precision, forced), needs, forced);
  const spared = sparedKernels(needs);
  const keeper = new RecordKeeper(
    forced || lost.plain || tune === 'off' ? undefined : setup.store,
    tunerKey(device, needs, precision, `${setup.version} ${await shaderVersion()}`),
  );
  const tunerOf = (known: Pick<TunerRecord, 'choices' | 'results'> | undefined) => {
    const results = [...(known?.results ?? []), ...lost.results];
    return new Tuner(device, needs, {
      ...{ precision, forced, careful: lost.careful, known: { choices: known?.choices ?? {}, results } },
      ...(lost.plain && !forced ? { offers: PLAIN_OFFERS } : {}),
      ...(totalMs === undefined ? {} : { totalMs }),
      ...(onProgress ? { onProgress } : {}),
      ...(signal ? { signal } : {}),
    });
  };
  if (tune === 'off') return prepared(tunerOf(undefined), setup, 'off', async () => true);

  return keeper.exclusively(async () => {
    const record = await keeper.read(tune === 'reset' && lost.results.length === 0);
    const tuner = tunerOf(record);
    const keep = (whole: boolean, more: readonly KernelResult[] = []) =>
      keeper.write({ choices: tuner.names, results: [...tuner.results, ...more], whole });
    const isKept = record?.whole === true && tuner.restore();
    if (!isKept) {
      try {
        await tuner.run();
      } catch (error) {
        if (error instanceof KernelLost) await keep(false, error.results.filter(spared));
        throw error;
      }
      await keep(tuner.untested === 0);
    }
    return prepared(tuner, setup, isKept ? 'kept' : 'tested', async () => {
      const before = tuner.results.length;
      const sound = await tuner.tryUnforeseen();
      if (tuner.results.length > before) await keep(tuner.untested === 0);
      return sound;
    });
  }, signal ?? new AbortController().signal);
}

function prepared(
  tuner: Tuner,
  { precision }: KernelSetup,
  from: KernelReport['from'],
  settle: () => Promise<boolean>,
): PreparedKernels {
  const report = (): KernelReport => {
    const failed = tuner.results.flatMap(({ name, why }) => (why === undefined ? [] : [{ name, why }]));
    return { from, precision, passed: tuner.results.length - failed.length, untested: tuner.untested, failed };
  };
  return { choices: tuner.choices, report, settle };
}

/** Which kernels others can stand in for: one that nothing can replace gets another try at the next start. */
function sparedKernels({ products, attention }: KernelNeeds): (result: KernelResult) => boolean {
  const plain = products.flatMap(({ part, form }) =>
    linearUses(part.format, form, defaultChoice(part, form, false)).map(linearUseName),
  );
  const forms = ATTENTION_FORMS.filter((form) => form !== DEFAULT_ATTENTION.whole);
  const others = forms.map((form) => attentionTrialName(attention, form));
  return ({ name }) => others.includes(name) || (name.startsWith('linear ') && !plain.includes(name));
}

/** A record's place in a store. A store that fails is as good as an empty one: then everything is tried again. */
class RecordKeeper {
  readonly #store: TunerStore | undefined;
  readonly #place: TunerKey;

  constructor(store: TunerStore | undefined, place: TunerKey) {
    this.#store = store;
    this.#place = place;
  }

  /** The record for this key, if there is one; `afresh`: what there is goes. */
  async read(afresh: boolean): Promise<TunerRecord | undefined> {
    const { slot, key } = this.#place;
    try {
      if (afresh) await this.#store?.delete(slot);
      return decodeRecord(await this.#store?.get(slot), key);
    } catch {
      return undefined;
    }
  }

  async write(record: Omit<TunerRecord, 'key'>): Promise<void> {
    const { slot, key } = this.#place;
    await this.#store?.set(slot, encodeRecord({ key, ...record })).catch(() => {});
  }

  /** Runs `act` while no other tab does, or after a while all the same. */
  async exclusively<T>(act: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (!this.#store?.exclusively) return act();
    return this.#store.exclusively(act, AbortSignal.any([signal, AbortSignal.timeout(WAIT_MS)]));
  }
}
