import type { RunnerLimits } from '../model/runner.ts';
import { fits, isScarce, minus, NO_SHARE, plus, type RowShare, wholeStep } from './row-share.ts';
import type { Sequence } from './sequence.ts';

/**
 * What a step has left of the runner's limits on what its rows tell. One logits row is kept for each sequence, and the
 * rest that its next row tells for whoever has waited longest, so that nobody waits for ever; what is left over goes to
 * those who come first.
 */
export class StepRoom {
  readonly #kept = new Map<Sequence, RowShare>();
  #free: RowShare;

  /** `sequences`: who may have rows in the step numbered `step`. */
  constructor(limits: RunnerLimits, sequences: readonly Sequence[], step: number) {
    const whole = wholeStep(limits);
    this.#free = { ...whole, logits: whole.logits - sequences.length };
    for (const sequence of sequences) this.#kept.set(sequence, { ...NO_SHARE, logits: 1 });
    const scarce = sequences.filter((sequence) => isScarce(sequence.rowShare));
    scarce.sort((a, b) => a.keptRoomAt - b.keptRoomAt || a.arrival - b.arrival);
    for (const sequence of scarce) {
      const more = { ...sequence.rowShare, logits: 0 };
      if (!fits(more, this.#free)) continue;
      this.#free = minus(this.#free, more);
      this.#kept.set(sequence, { ...more, logits: 1 });
      sequence.keptRoomAt = step;
    }
  }

  /** How many of a sequence's next `rows` rows there is room for. */
  fit(sequence: Sequence, rows: number): number {
    return this.#count(sequence, rows).rows;
  }

  /** Takes the room of `rows` rows that fit. */
  take(sequence: Sequence, rows: number): void {
    const { left } = this.#count(sequence, rows);
    this.#kept.delete(sequence);
    this.#free = left;
  }

  /** Room for one more row of a share, beside what is kept for others. */
  takeMore(share: RowShare): boolean {
    if (!fits(share, this.#free)) return false;
    this.#free = minus(this.#free, share);
    return true;
  }

  #count(sequence: Sequence, rows: number): { rows: number; left: RowShare } {
    let left = plus(this.#free, this.#kept.get(sequence) ?? NO_SHARE);
    for (let i = 0; i < rows; i++) {
      const share = sequence.shareOf(sequence.computed + i);
      if (!fits(share, left)) return { rows: i, left };
      left = minus(left, share);
    }
    return { rows, left };
  }
}
