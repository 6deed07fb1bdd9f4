import { GrammarError, type GrammarMatcher, type GrammarState } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import { constraintKey } from './constraint-key.ts';
import { type GrammarLink, LinkLostError } from './grammar-link.ts';
import type { GrammarAnswer } from './grammar-messages.ts';

/** A worker with what it has. */
export class GrammarSlot {
  readonly link: GrammarLink;
  /** Compiled constraints, by key; the most recently used is last. */
  readonly grammars = new Map<string, { readonly number: number; readonly length: number }>();
  readonly matchers = new Set<PooledMatcher>();

  constructor(link: GrammarLink) {
    this.link = link;
  }
}

/** What a matcher needs of its pool. */
export interface MatcherHost {
  open(matcher: PooledMatcher): Promise<GrammarAnswer>;
  readonly acceptMs: number;
  closed(): void;
}

/** A matcher of a pool: it knows its whole output, so that any worker can take it over. */
export class PooledMatcher implements GrammarMatcher {
  readonly constraint: Constraint;
  readonly key: string;
  readonly ids: number[];
  isClosed = false;
  #state: GrammarState | undefined;
  #slot: GrammarSlot | undefined;
  #number = 0;
  readonly #host: MatcherHost;

  constructor(constraint: Constraint, ids: readonly number[], host: MatcherHost) {
    this.constraint = constraint;
    this.key = constraintKey(constraint);
    this.ids = [...ids];
    this.#host = host;
  }

  get state(): GrammarState {
    return this.#state!;
  }

  get hasStarted(): boolean {
    return this.#state !== undefined;
  }

  async accept(...ids: readonly number[]): Promise<GrammarState> {
    if (this.isClosed) throw new GrammarError('internal', 'the matcher is closed');
    this.ids.push(...ids);
    let answer: GrammarAnswer;
    try {
      if (this.#slot === undefined) throw new LinkLostError('ended', 'its worker is gone');
      answer = await this.#slot.link.run({ op: 'accept', matcher: this.#number, ids }, this.#host.acceptMs);
    } catch (error) {
      if (!(error instanceof LinkLostError)) throw error;
      // Whoever was at fault shows when each is opened alone.
      this.leave();
      answer = await this.#host.open(this);
    }
    return this.take(answer);
  }

  async look(ids: readonly number[]): Promise<readonly GrammarState[]> {
    if (this.isClosed || this.#slot === undefined) throw new LinkLostError('ended', 'its worker is gone');
    const answer = await this.#slot.link.run({ op: 'look', matcher: this.#number, ids }, this.#host.acceptMs);
    return answer.ok ? (answer.states ?? []) : [];
  }

  /** The state of an answer. Throws GrammarError where it is none. */
  take(answer: GrammarAnswer): GrammarState {
    if (!answer.ok && answer.fault === 'caller') {
      throw new GrammarError('internal', `${this.constraint.kind}: ${answer.reason}`);
    }
    if (!answer.ok) throw refusal(this.constraint, answer.reason);
    this.#state = { mask: answer.mask, finished: answer.finished };
    return this.#state;
  }

  /** It is opened on `slot`, under `number`. */
  move(slot: GrammarSlot, number: number): void {
    this.#slot = slot;
    this.#number = number;
    slot.matchers.add(this);
  }

  /** Its worker has nothing of it any more. */
  leave(): void {
    this.#slot?.matchers.delete(this);
    this.#slot = undefined;
  }

  /** Its worker is to forget it: it will be opened elsewhere. */
  release(): void {
    this.#slot?.link.tell({ op: 'close', matcher: this.#number });
    this.leave();
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.release();
    this.#host.closed();
  }
}

/** The constraint is at fault. */
export function refusal({ kind }: Constraint, reason: string): GrammarError {
  return new GrammarError('invalid_argument', `${kind} is refused: ${reason}`);
}
