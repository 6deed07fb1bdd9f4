import { GrammarError, type GrammarMatcher, type GrammarState, type Grammars } from '../grammars.ts';
import type { Constraint } from '../request.ts';

/** An automaton over token ids: what a constraint's text says, as JSON. */
export interface IdAutomaton {
  readonly seed: number;
  readonly states: number;
  /** Ids that a state allows, of 16; the stop ids come on top where it is an end. */
  readonly density: number;
  /** One of so many states is an end. */
  readonly ends: number;
  /** What compiling or a token meets: the constraint is refused, or its worker fails after so many tokens. */
  readonly fault?: 'refused' | number;
}

/** Constraints over ids, matched by automata in this thread: every state allows some ids, and some allow the end. */
export class IdGrammars implements Grammars {
  readonly #vocabSize: number;
  readonly #stopIds: readonly number[];

  constructor(vocabSize: number, stopIds: readonly number[]) {
    this.#vocabSize = vocabSize;
    this.#stopIds = stopIds;
  }

  async open(constraint: Constraint, outputIds: readonly number[]): Promise<GrammarMatcher> {
    const automaton = JSON.parse(constraint.text) as IdAutomaton;
    if (automaton.fault === 'refused') throw new GrammarError('invalid_argument', 'the constraint is wrong at 0');
    const matcher = new IdMatcher(automaton, this.#vocabSize, this.#stopIds);
    for (const id of outputIds) matcher.take(id);
    return matcher;
  }

  destroy(): void {}
}

class IdMatcher implements GrammarMatcher {
  readonly #automaton: IdAutomaton;
  readonly #vocabSize: number;
  readonly #stopIds: readonly number[];
  #at = 0;
  #taken = 0;
  #finished = false;

  constructor(automaton: IdAutomaton, vocabSize: number, stopIds: readonly number[]) {
    this.#automaton = automaton;
    this.#vocabSize = vocabSize;
    this.#stopIds = stopIds;
  }

  get state(): GrammarState {
    if (this.#finished) return { mask: new Uint32Array(Math.ceil(this.#vocabSize / 32)), finished: true };
    const allowed = Array.from({ length: this.#vocabSize }, (_, id) => this.allows(id));
    if (allowed.every(Boolean)) return { mask: undefined, finished: false };
    const mask = new Uint32Array(Math.ceil(this.#vocabSize / 32));
    allowed.forEach((may, id) => {
      if (may) mask[id >>> 5]! |= 1 << (id & 31);
    });
    return { mask, finished: false };
  }

  /** Whether the state allows an id; what it allows follows from seed and state alone. */
  allows(id: number): boolean {
    const { seed, density, ends } = this.#automaton;
    if (this.#stopIds.includes(id)) return hash(seed, this.#at, -1) % ends === 0;
    return hash(seed, this.#at, id) % 16 < density;
  }

  take(id: number): void {
    if (this.#finished || !this.allows(id)) throw new GrammarError('internal', 'an id that was not allowed');
    if (this.#taken++ === this.#automaton.fault) throw new GrammarError('internal', 'the worker is gone');
    this.#finished = this.#stopIds.includes(id);
    this.#at = hash(this.#automaton.seed, this.#at, id + 1_000) % this.#automaton.states;
  }

  async accept(...ids: readonly number[]): Promise<GrammarState> {
    for (const id of ids) this.take(id);
    return this.state;
  }

  async look(ids: readonly number[]): Promise<readonly GrammarState[]> {
    const before = [this.#at, this.#taken, this.#finished] as const;
    const states: GrammarState[] = [];
    for (const id of ids) {
      if (this.#finished || !this.allows(id) || this.#taken === this.#automaton.fault) break;
      this.take(id);
      const { mask, finished } = this.state;
      if (finished || mask?.every((word) => word === 0)) break;
      states.push({ mask, finished });
    }
    [this.#at, this.#taken, this.#finished] = before;
    return states;
  }

  close(): void {}
}

function hash(...values: readonly number[]): number {
  let h = 2_166_136_261;
  for (const value of values) {
    h = Math.imul(h ^ value, 16_777_619);
    h = Math.imul(h ^ (h >>> 15), 2_246_822_519);
  }
  return (h ^ (h >>> 13)) >>> 0;
}
