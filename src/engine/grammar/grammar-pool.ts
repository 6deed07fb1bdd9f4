import { GrammarError, type GrammarMatcher, type Grammars } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import { GrammarLink, LinkLostError } from './grammar-link.ts';
import type { GrammarAnswer, StartGrammarWorker, Vocabulary } from './grammar-messages.ts';
import { GrammarSlot, PooledMatcher, refusal } from './pooled-matcher.ts';
import { RefusedConstraints } from './refused-constraints.ts';

export interface GrammarLimits {
  /** Milliseconds that a constraint may take to compile. */
  readonly compileMs: number;
  /** Milliseconds that one token may take to follow, and an output so far when it is opened. */
  readonly acceptMs: number;
  readonly openMs: number;
  /** Bytes of one worker's WebAssembly heap. */
  readonly maxHeapBytes: number;
}

const LIMITS: GrammarLimits = { compileMs: 5_000, acceptMs: 2_000, openMs: 5_000, maxHeapBytes: 512 * 2 ** 20 };
/** Length of a constraint's text. */
const MAX_TEXT = 2 ** 20;
/** Workers with matchers; one more may be there to compile in. */
const MOST_USED = 3;
/** Workers kept though they have no matchers. */
const MOST_EMPTY = 2;
/** A heap never shrinks: an empty worker with more is ended. */
const KEPT_HEAP_BYTES = 256 * 2 ** 20;
/** Compiled constraints that a worker keeps beyond those in use, and characters of all it has. */
const KEPT_GRAMMARS = 32;
const KEPT_TEXT = 2 * 2 ** 20;
/** Constraints that wait to be opened, more than an engine's queue has; and milliseconds that one waits. */
const MOST_WAITING = 512;
const WAIT_MS = 30_000;
/** Times that a matcher is opened again because its worker was lost to another constraint. */
const MOST_TRIES = 4;

/**
 * Constraints compiled and followed in workers. A constraint is compiled first where no output is being followed, so
 * that one that hangs or breaks its worker stops nobody; a worker that is lost all the same is replaced, and its
 * matchers are opened again there when they are asked next.
 */
export class GrammarPool implements Grammars {
  readonly #vocabulary: Vocabulary;
  readonly #start: StartGrammarWorker;
  readonly #limits: GrammarLimits;
  readonly #refused = new RefusedConstraints();
  #slots: GrammarSlot[] = [];
  /** One constraint is placed at a time. */
  #lane: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #numbers = 0;
  #destroyed = false;

  /** Starts no worker before the first constraint. */
  constructor(vocabulary: Vocabulary, start: StartGrammarWorker, limits: Partial<GrammarLimits> = {}) {
    this.#vocabulary = vocabulary;
    this.#start = start;
    this.#limits = { ...LIMITS, ...limits };
  }

  /** Workers there are. */
  get workers(): number {
    return this.#alive().length;
  }

  async open(constraint: Constraint, outputIds: readonly number[]): Promise<GrammarMatcher> {
    if (constraint.text.length > MAX_TEXT) throw refusal(constraint, `it is over ${MAX_TEXT} characters long`);
    const matcher = new PooledMatcher(constraint, outputIds, {
      open: (matcher) => this.#open(matcher),
      acceptMs: this.#limits.acceptMs,
      closed: () => this.#endEmpty(),
    });
    matcher.take(await this.#open(matcher));
    return matcher;
  }

  destroy(): void {
    this.#destroyed = true;
    for (const { link } of this.#slots) link.end();
    this.#slots = [];
  }

  /** Opens the matcher, on a worker that has its constraint or gets it. Rejects with GrammarError. */
  async #open(matcher: PooledMatcher): Promise<GrammarAnswer> {
    for (let tries = 1; ; tries++) {
      if (this.#destroyed) throw new GrammarError('internal', 'the engine has ended');
      this.#refused.check(matcher.constraint);
      try {
        const used = this.#alive().find((slot) => slot.matchers.size > 0 && slot.grammars.has(matcher.key));
        if (used !== undefined) return await this.#openIn(used, matcher);
        return await this.#inLane(async () => this.#openIn(await this.#place(matcher), matcher));
      } catch (error) {
        if (!(error instanceof LinkLostError)) throw error;
        if (error.why !== 'ended' || tries === MOST_TRIES || this.#destroyed) throw this.#blame(matcher, error);
      }
    }
  }

  async #openIn(slot: GrammarSlot, matcher: PooledMatcher): Promise<GrammarAnswer> {
    const number = this.#numbers++;
    const grammar = slot.grammars.get(matcher.key)!;
    // Most recently used is last.
    slot.grammars.delete(matcher.key);
    slot.grammars.set(matcher.key, grammar);
    matcher.move(slot, number);
    try {
      const task = { op: 'open', matcher: number, grammar: grammar.number, ids: matcher.ids } as const;
      const answer = await slot.link.run(task, this.#limits.openMs);
      if (matcher.isClosed) slot.link.tell({ op: 'close', matcher: number });
      else if (!answer.ok) matcher.leave();
      return answer;
    } catch (error) {
      matcher.leave();
      throw error;
    }
  }

  /** A slot with the matcher's constraint compiled. Rejects with LinkLostError or GrammarError. */
  async #place(matcher: PooledMatcher): Promise<GrammarSlot> {
    const alive = this.#alive();
    const used = alive.filter((slot) => slot.matchers.size > 0);
    const having = used.find((slot) => slot.grammars.has(matcher.key));
    if (having !== undefined) return having;
    const empty = alive.filter((slot) => slot.matchers.size === 0);
    const first = empty.find((slot) => slot.grammars.has(matcher.key)) ?? empty[0] ?? this.#newSlot();
    await this.#compile(first, matcher, this.#limits.compileMs);
    const target = used.reduce((a, b) => (a && a.matchers.size <= b.matchers.size ? a : b), used[0]);
    if (used.length < MOST_USED || target === undefined || target.link.lost) return first;
    // It is known to go well by now, and the empty worker stays empty.
    try {
      await this.#compile(target, matcher, this.#limits.compileMs);
    } catch (error) {
      if (error instanceof LinkLostError && error.why !== 'ended') {
        throw new GrammarError('resource_exhausted', `no worker has room for this ${matcher.constraint.kind} now`);
      }
      throw error;
    }
    return target;
  }

  async #compile(slot: GrammarSlot, { key, constraint }: PooledMatcher, boundMs: number): Promise<void> {
    if (slot.grammars.has(key)) return;
    const number = this.#numbers++;
    const answer = await slot.link.run({ op: 'compile', grammar: number, constraint }, boundMs);
    if (!answer.ok) throw refusal(constraint, answer.reason);
    slot.grammars.set(key, { number, length: key.length });
    const inUse = new Set([...slot.matchers].map((matcher) => matcher.key)).add(key);
    let length = [...slot.grammars.values()].reduce((sum, grammar) => sum + grammar.length, 0);
    for (const [old, grammar] of slot.grammars) {
      if (slot.grammars.size <= KEPT_GRAMMARS && length <= KEPT_TEXT) break;
      if (inUse.has(old)) continue;
      slot.grammars.delete(old);
      slot.link.tell({ op: 'drop', grammar: grammar.number });
      length -= grammar.length;
    }
  }

  async #inLane<T>(act: () => Promise<T>): Promise<T> {
    const busy = () => new GrammarError('resource_exhausted', 'too many constraints are waiting to be compiled');
    if (this.#waiting >= MOST_WAITING) throw busy();
    this.#waiting++;
    const since = performance.now();
    const turn = this.#lane.then(() => {
      this.#waiting--;
      if (performance.now() - since > WAIT_MS) throw busy();
      return act();
    });
    this.#lane = turn.catch(() => {});
    return turn;
  }

  #newSlot(): GrammarSlot {
    if (this.#destroyed) throw new GrammarError('internal', 'the engine has ended');
    const { maxHeapBytes } = this.#limits;
    const slot = new GrammarSlot(new GrammarLink(this.#start, this.#vocabulary, maxHeapBytes));
    this.#slots.push(slot);
    return slot;
  }

  #alive(): readonly GrammarSlot[] {
    this.#slots = this.#slots.filter((slot) => !slot.link.lost);
    return this.#slots;
  }

  #endEmpty(): void {
    const empty = this.#alive().filter((slot) => slot.matchers.size === 0);
    for (const [i, { link }] of empty.entries()) {
      if (i >= MOST_EMPTY || link.heapBytes > KEPT_HEAP_BYTES) link.end();
    }
  }

  #blame({ constraint, hasStarted }: PooledMatcher, { why, message }: LinkLostError): GrammarError {
    if (why === 'start' || why === 'ended') return new GrammarError('internal', `the grammar worker: ${message}`);
    const doing = hasStarted ? 'to follow an output' : 'to compile';
    const reason = {
      refused: message,
      memory: `it takes over ${this.#limits.maxHeapBytes / 2 ** 20} MiB ${doing}`,
      time: `it takes ${message} ${doing}`,
      nesting: 'it is nested too deep',
      failed: 'it can not be compiled',
    }[why];
    const error = refusal(constraint, reason);
    this.#refused.add(constraint, error);
    return error;
  }
}
