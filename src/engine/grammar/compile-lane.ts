import { GrammarError } from '../grammars.ts';

/** Constraints that wait to be opened, more than an engine's queue has; and milliseconds that one waits. */
const MOST_WAITING = 512;
const WAIT_MS = 30_000;

/** Acts one after the other, each in its turn: many may wait, but none for long. */
export class CompileLane {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Rejects with GrammarError where too many wait, or this one has waited too long. */
  async run<T>(act: () => Promise<T>): Promise<T> {
    const busy = () => new GrammarError('resource_exhausted', 'too many constraints are waiting to be compiled');
    if (this.#waiting >= MOST_WAITING) throw busy();
    this.#waiting++;
    const since = performance.now();
    const turn = this.#last.then(() => {
      this.#waiting--;
      if (performance.now() - since > WAIT_MS) throw busy();
      return act();
    });
    this.#last = turn.catch(() => {});
    return turn;
  }
}
