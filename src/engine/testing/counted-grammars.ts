import { GrammarError, type GrammarMatcher, type Grammars } from '../grammars.ts';
import type { Constraint } from '../request.ts';

/** Grammars that answer when the test says so, and count what is opened and closed. */
export class CountedGrammars implements Grammars {
  opening = 0;
  opened = 0;
  closed = 0;
  readonly #inner: Grammars;
  readonly #wait: () => Promise<void>;

  /** `wait`: what each answer takes beyond its own time. */
  constructor(inner: Grammars, wait: () => Promise<void> = () => Promise.resolve()) {
    this.#inner = inner;
    this.#wait = wait;
  }

  async open(constraint: Constraint, outputIds: readonly number[], isWanted?: () => boolean): Promise<GrammarMatcher> {
    this.opening++;
    try {
      await this.#wait();
      const matcher = await this.#inner.open(constraint, outputIds, isWanted);
      this.opened++;
      return this.#counted(matcher);
    } finally {
      this.opening--;
    }
  }

  destroy(): void {
    this.#inner.destroy();
  }

  #counted(matcher: GrammarMatcher): GrammarMatcher {
    let closed = false;
    return {
      get state() {
        return matcher.state;
      },
      accept: async (...ids) => {
        await this.#wait();
        if (closed) throw new GrammarError('internal', 'the matcher is closed');
        return matcher.accept(...ids);
      },
      look: async (ids) => {
        await this.#wait();
        if (closed) throw new GrammarError('internal', 'the matcher is closed');
        return matcher.look(ids);
      },
      close: () => {
        if (closed) throw new Error('a matcher is closed twice');
        closed = true;
        this.closed++;
        matcher.close();
      },
    };
  }
}
