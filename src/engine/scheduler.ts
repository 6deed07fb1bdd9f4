import { BLOCK_TOKENS, type LogitsRow, type RunnerLimits, type StepBatch, type StepSequence } from '../model/runner.ts';
import { BlockPool } from './block-pool.ts';
import { blocksNeeded, type Sequence } from './sequence.ts';

/** A step, and the sequence behind each of its logits rows. */
export interface Plan {
  readonly batch: StepBatch;
  readonly sampled: readonly Sequence[];
  /** Sequences that this step brings to their end without a token: prefill only. */
  readonly prefilled: readonly Sequence[];
}

export interface SchedulerLimits {
  /** Sequences running at once. */
  readonly maxRunning: number;
  /** Sequences waiting at once. */
  readonly maxWaiting: number;
  /** Prefill rows of one step, so that a long prompt doesn't hold up the running rows for long. */
  readonly prefillRows: number;
}

/**
 * Decides what each step computes. Two queues: `waiting` is first come, first served; `running` holds slots and KV
 * blocks for the longest that its sequences can become, so that what was admitted can always be finished.
 */
export class Scheduler {
  readonly pool: BlockPool;
  readonly limits: SchedulerLimits;
  readonly #runner: RunnerLimits;
  readonly #freeSlots: number[];
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];

  constructor(runner: RunnerLimits, limits: SchedulerLimits) {
    this.#runner = runner;
    this.limits = {
      ...limits,
      maxRunning: Math.min(limits.maxRunning, runner.maxSequences, runner.maxLogitsRows, runner.maxRows),
    };
    this.pool = new BlockPool(runner.blocks);
    this.#freeSlots = Array.from({ length: this.limits.maxRunning }, (_, i) => this.limits.maxRunning - 1 - i);
  }

  get waiting(): readonly Sequence[] {
    return this.#waiting;
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  /** KV positions that hold computed values. */
  get usedTokens(): number {
    return this.#running.reduce((sum, sequence) => sum + sequence.computed, 0);
  }

  add(sequence: Sequence): void {
    this.#waiting.push(sequence);
  }

  /** Takes a sequence out of its queue and frees what it holds. */
  remove(sequence: Sequence): void {
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
    this.#running = this.#running.filter((other) => other !== sequence);
    if (sequence.slot < 0) return;
    this.pool.release(sequence.blocks);
    this.#freeSlots.push(sequence.slot);
    sequence.blocks = [];
    sequence.slot = -1;
  }

  /** The next step: every decode row that may run, then prefill chunks in order. Undefined: nothing to do. */
  plan(): Plan | undefined {
    this.#admit();
    const decoding = this.#running.filter((sequence) => sequence.pendingRows === 1 && !sequence.parked);
    const prefilling = this.#running.filter((sequence) => sequence.pendingRows > 1);
    const sequences: StepSequence[] = [];
    const logits: LogitsRow[] = [];
    const sampled: Sequence[] = [];
    const prefilled: Sequence[] = [];
    let rows = 0;
    const schedule = (sequence: Sequence, count: number) => {
      const startPosition = sequence.computed;
      const end = startPosition + count;
      sequences.push({
        slot: sequence.slot,
        tokens: sequence.ids.slice(startPosition, end),
        startPosition,
        blockTable: sequence.blocks.slice(0, Math.ceil(end / BLOCK_TOKENS)),
      });
      rows += count;
      sequence.computed = end;
      if (end < sequence.ids.length) return;
      if (sequence.prefillOnly) {
        prefilled.push(sequence);
        return;
      }
      logits.push(sequence.logitsRow(rows - 1));
      sampled.push(sequence);
    };
    for (const sequence of decoding) {
      if (rows < this.#runner.maxRows) schedule(sequence, 1);
    }
    let budget = Math.min(this.#runner.maxRows - rows, this.limits.prefillRows);
    for (const sequence of prefilling) {
      // The row from which a parked sequence's next token is drawn waits for credit.
      const count = Math.min(sequence.pendingRows - (sequence.parked ? 1 : 0), budget);
      if (count === 0) continue;
      budget -= count;
      schedule(sequence, count);
    }
    return sequences.length === 0 ? undefined : { batch: { sequences, logits }, sampled, prefilled };
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#freeSlots.length > 0) {
      const [next] = this.#waiting;
      const blocks = this.pool.allocate(blocksNeeded(next!.request));
      // Nobody overtakes the first in line: it would never get a large share of a busy pool otherwise.
      if (!blocks) return;
      next!.blocks = blocks;
      next!.slot = this.#freeSlots.pop()!;
      this.#waiting.shift();
      this.#running.push(next!);
    }
  }
}
