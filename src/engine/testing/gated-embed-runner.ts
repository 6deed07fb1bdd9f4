import type { EmbedLimits, EmbedRunner, EmbedSequence } from '../../model/embed-runner.ts';

interface Step {
  readonly sequences: readonly EmbedSequence[];
  readonly settle: (vectors: Float32Array<ArrayBuffer>[]) => void;
  readonly fail: (error: Error) => void;
}

/** Makes [sum of ids, how many] of a sequence, once a test lets its step end. */
export class GatedEmbedRunner implements EmbedRunner {
  readonly kind = 'embedding';
  readonly dimension = 2;
  readonly weightBytes = 1_000;
  readonly allocatedBytes = 2_000;
  readonly limits: EmbedLimits;
  /** How many sequences each step had. */
  readonly sizes: number[] = [];
  readonly #steps: Step[] = [];
  destroyed = false;

  constructor(limits: Partial<EmbedLimits> = {}) {
    this.limits = {
      ...{ maxRows: 10, maxSequences: 4, contextLength: 20, longest: 16, vocabSize: 100, tokenTypes: 2 },
      ...limits,
    };
  }

  /** Steps that have not ended. */
  get pending(): number {
    return this.#steps.length;
  }

  embed(sequences: readonly EmbedSequence[]): Promise<Float32Array<ArrayBuffer>[]> {
    this.sizes.push(sequences.length);
    return new Promise((settle, fail) => this.#steps.push({ sequences, settle, fail }));
  }

  /** Ends the oldest step, and lets what waits for it go on. */
  async end(error?: Error): Promise<void> {
    const step = this.#steps.shift();
    if (!step) throw new Error('no step is under way');
    if (error) step.fail(error);
    else {
      step.settle(
        step.sequences.map(({ ids }) =>
          Float32Array.of(
            Array.from(ids).reduce((a, b) => a + b, 0),
            ids.length,
          ),
        ),
      );
    }
    await settle();
  }

  destroy(): void {
    this.destroyed = true;
  }
}

/** Lets all that follows from promises that are settled happen. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
