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
  /** After each guess of the draft looked along last, as far as these can come. */
  #ahead: readonly GrammarState[] = [];
  #looking: Promise<void> | undefined;

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
   * Gives drawn tokens to the matcher, those of one step at a time; calls `take` once they are taken, `fail` where they can't be. Rejects
   * with what these throw.
   */
  accept(ids: readonly number[], take: () => void, fail: (error: unknown) => void): Promise<void> {
    const startedAt = this.#now();
    const timeout = `the constraint's matcher took over ${ACCEPT_TIMEOUT_MS / 1000} s for a token`;
    this.#pending = settledWithin(ACCEPT_TIMEOUT_MS, this.#matcher.accept(...ids), timeout).then(
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

  /** Settles once the states along a draft are known; undefined: they are. */
  get looking(): Promise<void> | undefined {
    return this.#looking;
  }

  /** Asks for the states along a draft. */
  look(guesses: readonly number[]): void {
    this.#ahead = [];
    this.#looking = undefined;
    const { mask } = this.#state;
    const [first] = guesses;
    if (first === undefined || (mask && !((mask[first >>> 5]! >>> (first & 31)) & 1))) return;
    const take = (states: readonly GrammarState[]) => {
      // Of a draft before, it says nothing any more.
      if (this.#looking !== looking) return;
      this.#ahead = states;
      this.#looking = undefined;
    };
    const looking: Promise<void> = settledWithin(
      ACCEPT_TIMEOUT_MS,
      this.#matcher.look(guesses),
      "the constraint's matcher looks for ever",
    ).then(take, () => take([]));
    // Where its worker is gone the next token finds out, and another takes over.
    this.#looking = looking;
  }

  /** What may be drawn after so many guesses of the draft, `withheld` ids aside. */
  allowed(withheld: readonly number[], guesses = 0): Allowed {
    if (guesses === 0) return allowedIn(this.#state, withheld);
    const state = this.#looking ? undefined : this.#ahead[guesses - 1];
    const allowed = state ? allowedIn(state, withheld) : 'refused';
    return typeof allowed === 'object' ? allowed : 'refused';
  }

  close(): void {
    this.#matcher.close();
  }
}

function allowedIn({ mask, finished }: GrammarState, withheld: readonly number[]): Allowed {
  if (finished) return 'met';
  if (mask === undefined) return { mask };
  if (!mask.some((word) => word !== 0)) return 'stuck';
  if (withheld.length === 0) return { mask };
  const rest = mask.slice();
  for (const id of withheld) rest[id >>> 5]! &= ~(1 << (id & 31));
  return rest.some((word) => word !== 0) ? { mask } : 'met';
}
