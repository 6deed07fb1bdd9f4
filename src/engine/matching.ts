import type { GrammarMatcher, GrammarState } from './grammars.ts';
import { settledWithin } from './settled-within.ts';
import type { Undrawn } from './step-builder.ts';

/** A matcher that takes longer over one token never ends. */
const ACCEPT_TIMEOUT_MS = 10_000;

/** What may be drawn next, by a mask (undefined: anything); or why nothing may. */
export type Allowed = { readonly mask: Uint32Array | undefined } | Exclude<Undrawn, 'late'>;

/** A sequence's way through its constraint, followed by a matcher that runs elsewhere. */
export class Matching {
  /** It made a step wait too long for its mask, and hasn't been quick since. */
  late = false;
  readonly #matcher: GrammarMatcher;
  readonly #patienceMs: number;
  readonly #now: () => number;
  #state: GrammarState;
  #pending: Promise<void> | undefined;

  constructor(matcher: GrammarMatcher, patienceMs: number, now: () => number) {
    this.#matcher = matcher;
    this.#patienceMs = patienceMs;
    this.#now = now;
    this.#state = matcher.state;
  }

  /** Nothing may follow any more. */
  get finished(): boolean {
    return this.#state.finished;
  }

  /** Settles once the token that was drawn last is taken; undefined: it is. */
  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  /**
   * Gives a drawn token to the matcher, one at a time; calls `take` once it is taken, `fail` where it can't be. Rejects
   * with what these throw.
   */
  accept(id: number, take: () => void, fail: (error: unknown) => void): Promise<void> {
    const startedAt = this.#now();
    const timeout = `the constraint's matcher took over ${ACCEPT_TIMEOUT_MS / 1000} s for a token`;
    this.#pending = settledWithin(ACCEPT_TIMEOUT_MS, this.#matcher.accept(id), timeout).then(
      (state) => {
        this.#pending = undefined;
        this.#state = state;
        this.late = this.#now() - startedAt > this.#patienceMs;
        take();
      },
      (error) => {
        this.#pending = undefined;
        fail(error);
      },
    );
    return this.#pending;
  }

  /** What may be drawn, `withheld` ids aside. */
  allowed(withheld: readonly number[]): Allowed {
    const { mask, finished } = this.#state;
    if (finished) return 'met';
    if (mask === undefined) return { mask };
    if (!mask.some((word) => word !== 0)) return 'stuck';
    if (withheld.length === 0) return { mask };
    const rest = mask.slice();
    for (const id of withheld) rest[id >>> 5]! &= ~(1 << (id & 31));
    return rest.some((word) => word !== 0) ? { mask } : 'met';
  }

  close(): void {
    this.#matcher.close();
  }
}
