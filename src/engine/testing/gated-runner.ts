import { BLOCK_TOKENS, type Runner, type RunnerLimits, type SampledRow, type StepBatch } from '../../model/runner.ts';
import { WrappedRunner } from './wrapped-runner.ts';

/** What a gated runner takes at most, below what the runner behind it does. */
export type NarrowLimits = Partial<Pick<RunnerLimits, 'maxLogitsRows' | 'maxTop' | 'maxHiddenRows'>> & {
  /** Of the pools of KV groups at most: of those without a window, and of windowed ones, but what one sequence needs. */
  readonly blocks?: number;
  readonly windowBlocks?: number;
};

/** A runner whose steps end when the test says so: a device that is slow, or stands still. */
export class GatedRunner extends WrappedRunner {
  readonly #held: (() => void)[] = [];
  /** How many ids' logprobs each slot tells. */
  readonly #logprobIds = new Map<number, number>();
  #open = false;
  #inFlight = 0;
  steps = 0;
  /** Of them: several decode steps for one readback, and those with rows that tell prompt positions. */
  repeatedSteps = 0;
  scoringSteps = 0;
  maskedSteps = 0;
  draftedSteps = 0;
  maskedDrafts = 0;
  /** Called before each step is computed. */
  beforeStep: (batch: StepBatch) => void = () => {};

  constructor(inner: Runner, limits: NarrowLimits = {}) {
    const { blocks = Number.POSITIVE_INFINITY, windowBlocks = blocks, ...rest } = limits;
    const kvGroups = inner.limits.kvGroups.map((group) => {
      const { window } = group;
      const most = window === undefined ? blocks : Math.max(windowBlocks, Math.ceil(window / BLOCK_TOKENS) + 2);
      return { ...group, blocks: Math.min(group.blocks, most) };
    });
    super(inner, { ...rest, kvGroups });
  }

  override async step(batch: StepBatch): Promise<SampledRow[]> {
    this.steps++;
    if ((batch.repeat ?? 1) > 1) this.repeatedSteps++;
    if (batch.logits.some(({ scored }) => scored !== undefined)) this.scoringSteps++;
    if (batch.logits.some(({ masked }) => masked)) this.maskedSteps++;
    if (batch.logits.some(({ draft }) => draft)) this.draftedSteps++;
    if (batch.logits.some(({ draft, masked }) => draft && masked)) this.maskedDrafts++;
    this.#check(batch);
    this.beforeStep(batch);
    // Computed at once, told later: as on a GPU, steps are done in the order in which they were submitted.
    const rows = this.inner.step(batch);
    const settled = () => {
      this.#inFlight--;
    };
    this.#inFlight++;
    rows.then(settled, settled);
    if (!this.#open) await new Promise<void>((resolve) => this.#held.push(resolve));
    return rows;
  }

  /** Lets up to `count` held steps end, the oldest first, and gives the engine its turn after each. */
  async release(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const next = this.#held.shift();
      if (!next) return;
      next();
      await turn();
    }
  }

  /** Holds nothing any more. */
  async openForGood(): Promise<void> {
    this.#open = true;
    await this.release(Number.POSITIVE_INFINITY);
  }

  /** Nothing is with the runner any more: another engine may have it. */
  async quiet(): Promise<void> {
    while (this.#inFlight > 0) await turn();
  }

  /** The narrower limits, which the runner behind doesn't know. */
  #check({ logits, starts = [] }: StepBatch): void {
    for (const { slot, logprobIds } of starts) this.#logprobIds.set(slot, logprobIds.length);
    const { maxLogitsRows, maxTop, maxHiddenRows } = this.limits;
    if (logits.length > maxLogitsRows) throw new Error(`${logits.length} logits rows, at most ${maxLogitsRows}`);
    const top = logits.reduce((sum, row) => sum + row.topLogprobs, 0);
    if (top > maxTop) throw new Error(`${top} top logprobs, at most ${maxTop}`);
    const ids = logits.reduce((sum, row) => sum + (row.idLogprobs ? this.#logprobIds.get(row.slot)! : 0), 0);
    if (ids > maxTop) throw new Error(`${ids} logprobs of slots' ids, at most ${maxTop}`);
    const hidden = logits.filter((row) => row.hidden).length;
    if (hidden > maxHiddenRows) throw new Error(`${hidden} hidden rows, at most ${maxHiddenRows}`);
  }
}

/** Lets everything that is ready run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
