import type { Runner, RunnerLimits, SampledRow, StepBatch } from '../../model/runner.ts';

/** What an adapter takes, in milliseconds. */
export interface AdapterTimes {
  /** The host, for the dispatches of each decode step. */
  readonly encode: number;
  /** The GPU, for a decode step, and for each of its rows. */
  readonly step: number;
  readonly row: number;
  /** From the end of a step's work to its ids: the GPU goes on with the next meanwhile. */
  readonly readback: number;
  /** Something else has the machine now and then, such as a collection of garbage. */
  readonly pause?: { readonly every: number; readonly ms: number };
}

/** The id after `id` at `position` of the sequence in `slot`. */
export type NextId = (slot: number, position: number, id: number) => number;

/**
 * A runner whose model is one function of the id before, and whose steps take an adapter's time on a clock of its own: the GPU
 * works on one step after the other, the host encodes and waits. Time passes only while everybody waits.
 */
export class TimedRunner implements Runner {
  readonly weightBytes = 0;
  readonly kvBytes = 0;
  readonly allocatedBytes = 0;
  readonly limits: RunnerLimits = {
    maxRows: 256,
    maxSequences: 16,
    maxLogitsRows: 256,
    maxTopLogprobs: 0,
    maxTop: 0,
    maxBiases: 0,
    maxLogprobIds: 0,
    maxHiddenRows: 0,
    hiddenSize: 1,
    contextLength: 2_048,
    vocabSize: 4_096,
    kvGroups: [{ blocks: 2_048 }],
  };
  /** Milliseconds since the start. */
  now = 0;
  repeatedSteps = 0;
  readonly #adapter: AdapterTimes;
  readonly #next: NextId;
  readonly #noise: () => number;
  readonly #lastIds = new Map<number, number>();
  readonly #ends: { readonly at: number; readonly settle: () => void }[] = [];
  #freeAt = 0;
  #pauses = 0;

  /** `noise`: a factor of each step's time on the GPU. */
  constructor(adapter: AdapterTimes, next: NextId, noise: () => number) {
    this.#adapter = adapter;
    this.#next = next;
    this.#noise = noise;
  }

  step(batch: StepBatch): Promise<SampledRow[]> {
    const { encode, step, row, readback, pause } = this.#adapter;
    const repeat = batch.repeat ?? 1;
    if (repeat > 1) this.repeatedSteps++;
    const rows = batch.sequences.reduce(
      (sum, { tokens }) => sum + (typeof tokens === 'string' ? 1 : idsOf(tokens).length),
      0,
    );
    this.now += encode * repeat;
    if (pause && this.now > (this.#pauses + 1) * pause.every) {
      this.#pauses = Math.floor(this.now / pause.every);
      this.now += pause.ms;
    }
    this.#freeAt = Math.max(this.now, this.#freeAt) + repeat * (step + row * rows) * this.#noise();
    const at = this.#freeAt + readback;
    const sampled = this.#sample(batch, repeat);
    return new Promise((resolve) => {
      this.#ends.push({ at, settle: () => resolve(sampled) });
      if (this.#ends.length === 1) setImmediate(() => this.#pass());
    });
  }

  drawMasked(): void {
    throw new Error('no masks here');
  }

  destroy(): void {}

  /** The oldest step ends; then everybody has a turn. */
  #pass(): void {
    const { at, settle } = this.#ends[0]!;
    this.now = Math.max(this.now, at);
    settle();
    setImmediate(() => {
      this.#ends.shift();
      if (this.#ends.length > 0) this.#pass();
    });
  }

  #sample({ sequences, logits }: StepBatch, repeat: number): SampledRow[] {
    const sampled: SampledRow[] = [];
    for (let i = 0; i < repeat; i++) {
      let first = 0;
      let wanted = 0;
      for (const { slot, tokens, startPosition } of sequences) {
        const ids = i > 0 || tokens === 'slot' ? [this.#lastIds.get(slot)!] : idsOf(tokens);
        for (; wanted < logits.length && logits[wanted]!.row < first + ids.length; wanted++) {
          const at = logits[wanted]!.row - first;
          const id = this.#next(slot, startPosition + i + at, ids[at]!);
          this.#lastIds.set(slot, id);
          sampled.push({ id, nonFinite: false });
        }
        first += ids.length;
      }
    }
    return sampled;
  }
}

function idsOf(tokens: StepBatch['sequences'][number]['tokens']): ArrayLike<number> {
  if (typeof tokens === 'string' || 'embeddings' in tokens) throw new Error('ids are all it takes');
  return tokens;
}
