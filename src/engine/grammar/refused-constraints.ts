import type { GrammarError } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import { constraintKey } from './constraint-key.ts';

const REMEMBER_MS = 60_000;
const MOST = 64;
const MOST_TEXT = 4 * 2 ** 20;

/** Constraints that cost a worker, remembered for a while so that the same one doesn't cost the next. */
export class RefusedConstraints {
  readonly #errors = new Map<string, { readonly error: GrammarError; readonly until: number }>();
  #text = 0;

  /** Throws what the constraint was refused with. */
  check(constraint: Constraint): void {
    const key = constraintKey(constraint);
    const refused = this.#errors.get(key);
    if (refused === undefined) return;
    if (performance.now() < refused.until) throw refused.error;
    this.#forget(key);
  }

  add(constraint: Constraint, error: GrammarError): void {
    const key = constraintKey(constraint);
    this.#forget(key);
    this.#errors.set(key, { error, until: performance.now() + REMEMBER_MS });
    this.#text += key.length;
    for (const oldest of this.#errors.keys()) {
      if (this.#errors.size <= MOST && this.#text <= MOST_TEXT) break;
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    if (this.#errors.delete(key)) this.#text -= key.length;
  }
}
