import { WrappedRunner } from '../../src/engine/testing/wrapped-runner.ts';
import type { Runner, SampledRow, StepBatch } from '../../src/model/runner.ts';

/** How often a node lies, in [0, 1], and in what. */
export interface LieRates {
  /** Of the samples that it makes: each of their ids is another than was drawn. */
  readonly samples?: number;
  /** Of the prompts that it scores: each best logprob is another id's. */
  readonly scores?: number;
}

/** A runner that tells other ids than it draws, or other scores than it computes: a hostile node's. */
export class LyingRunner extends WrappedRunner {
  readonly #rates: LieRates;
  readonly #random: () => number;
  /** By slot, whether it lies about what runs there. */
  readonly #lies = new Map<number, boolean>();
  /** Samples begun. */
  made = 0;
  /** Of those: lied about. */
  lied = 0;

  constructor(inner: Runner, rates: LieRates, random: () => number) {
    super(inner);
    this.#rates = rates;
    this.#random = random;
  }

  override async step(batch: StepBatch): Promise<SampledRow[]> {
    const rows = await this.inner.step(batch);
    const { vocabSize } = this.limits;
    return rows.map((row, at) => {
      const { slot, scored, outputPosition } = batch.logits[at % batch.logits.length]!;
      if (scored !== undefined) {
        if (!row.top || this.#random() >= (this.#rates.scores ?? 0)) return row;
        return { ...row, top: { ...row.top, ids: row.top.ids.map((id) => (id + 7) % vocabSize) } };
      }
      if (at < batch.logits.length && outputPosition === 0) {
        const lies = this.#random() < (this.#rates.samples ?? 0);
        this.#lies.set(slot, lies);
        this.made++;
        if (lies) this.lied++;
      }
      return this.#lies.get(slot) ? { ...row, id: (row.id + 7) % vocabSize } : row;
    });
  }
}
