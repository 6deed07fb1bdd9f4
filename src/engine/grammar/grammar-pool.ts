import { GrammarError, type GrammarMatcher, type Grammars } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import { CheapSlice } from './cheap-slice.ts';
import { CompileLane } from './compile-lane.ts';
import { constraintCost } from './constraint-cost.ts';
import { GrammarLink, LinkLostError } from './grammar-link.ts';
import type { GrammarAnswer, StartGrammarWorker, Vocabulary } from './grammar-messages.ts';
import { GrammarSlot, PooledMatcher, refusal } from './pooled-matcher.ts';
import { RefusedConstraints } from './refused-constraints.ts';

export interface GrammarLimits {
  /** Milliseconds that a constraint may take to compile. */
  readonly compileMs: number;
  /** From what cost on it waits with the dear ones (constraint-cost.ts). */
  readonly dearCost: number;
  /** Milliseconds after which it joins them: at most, and after many of which that was true (cheap-slice.ts). */
  readonly cheapMs: number;
  readonly leastCheapMs: number;
  /** Milliseconds that one token may take to follow, and an output so far when it is opened. */
  readonly acceptMs: number;
  readonly openMs: number;
  /** Bytes of one worker's WebAssembly heap. */
  readonly maxHeapBytes: number;
}

const LIMITS: GrammarLimits = {
  compileMs: 5_000,
  dearCost: 25_000,
  cheapMs: 1_000,
  leastCheapMs: 200,
  acceptMs: 2_000,
  openMs: 5_000,
  maxHeapBytes: 512 * 2 ** 20,
};
/** Length of a constraint's text. */
const MAX_TEXT = 2 ** 20;
/** Workers with matchers; one more a lane may be there to compile in. */
const MOST_USED = 3;
/** Workers kept though they have no matchers. */
const MOST_EMPTY = 2;
/** A heap never shrinks: an empty worker with more is ended. */
const KEPT_HEAP_BYTES = 256 * 2 ** 20;
/** Compiled constraints that a worker keeps beyond those in use, and characters of all it has. */
const KEPT_GRAMMARS = 32;
const KEPT_TEXT = 2 * 2 ** 20;
/** Constraints remembered that took longer than they looked. */
const MOST_DEAR = 256;
/** Times that a matcher is opened again because its worker was lost to another constraint. */
const MOST_TRIES = 4;

/**
 * Constraints compiled and followed in workers. A constraint is compiled first where no output is being followed, so
 * that one that hangs or breaks its worker stops nobody; a worker that is lost all the same is replaced, and its
 * matchers are opened again there when they are asked next. What looks cheap doesn't wait for what looks dear, or
 * turned out to be.
 */
export class GrammarPool implements Grammars {
  readonly #vocabulary: Vocabulary;
  readonly #start: StartGrammarWorker;
  readonly #limits: GrammarLimits;
  readonly #refused = new RefusedConstraints();
  #slots: GrammarSlot[] = [];
  /** One constraint a lane is placed at a time. */
  readonly #cheap = new CompileLane();
  readonly #dear = new CompileLane();
  readonly #slice: CheapSlice;
  readonly #turnedOutDear = new Set<string>();
  /** Where the lanes are at work. */
  readonly #busy = new Set<GrammarSlot>();
  #numbers = 0;
  #destroyed = false;

  /** Starts no worker before the first constraint. */
  constructor(vocabulary: Vocabulary, start: StartGrammarWorker, limits: Partial<GrammarLimits> = {}) {
    this.#vocabulary = vocabulary;
    this.#start = start;
    this.#limits = { ...LIMITS, ...limits };
    this.#slice = new CheapSlice(this.#limits.cheapMs, this.#limits.leastCheapMs);
  }

  /** Workers there are. */
  get workers(): number {
    return this.#alive().length;
  }

  async open(constraint: Constraint, outputIds: readonly number[], isWanted = () => true): Promise<GrammarMatcher> {
    if (constraint.text.length > MAX_TEXT) throw refusal(constraint, `it is over ${MAX_TEXT} characters long`);
    const matcher = new PooledMatcher(constraint, outputIds, {
      open: (matcher) => this.#open(matcher),
      acceptMs: this.#limits.acceptMs,
      closed: () => this.#endEmpty(),
    });
    matcher.take(await this.#open(matcher, isWanted));
    return matcher;
  }

  destroy(): void {
    this.#destroyed = true;
    for (const { link } of this.#slots) link.end();
    this.#slots = [];
  }

  /** Opens the matcher, on a worker that has its constraint or gets it. Rejects with GrammarError. */
  async #open(matcher: PooledMatcher, isWanted = () => !matcher.isClosed): Promise<GrammarAnswer> {
    for (let tries = 1; ; ) {
      if (this.#destroyed) throw new GrammarError('internal', 'the engine has ended');
      this.#refused.check(matcher.constraint);
      const dear = this.#isDear(matcher);
      try {
        const used = this.#alive().find((slot) => slot.matchers.size > 0 && slot.grammars.has(matcher.key));
        if (used !== undefined) return await this.#openIn(used, matcher, this.#limits.openMs);
        const lane = dear ? this.#dear : this.#cheap;
        const answer = await lane.run(async () => {
          if (!isWanted()) throw new GrammarError('internal', 'nobody waits for it any more');
          // Another one of the same constraint may have shown what it takes.
          return this.#isDear(matcher) === dear ? this.#place(matcher, dear) : undefined;
        });
        if (answer !== undefined) return answer;
      } catch (error) {
        if (!(error instanceof LinkLostError)) throw error;
        if (error.why === 'time' && !dear) this.#turnsOutDear(matcher);
        else if (error.why !== 'ended' || tries++ === MOST_TRIES || this.#destroyed) throw this.#blame(matcher, error);
      }
    }
  }

  #isDear({ key, constraint }: PooledMatcher): boolean {
    return this.#turnedOutDear.has(key) || constraintCost(constraint) >= this.#limits.dearCost;
  }

  #turnsOutDear({ key }: PooledMatcher): void {
    this.#slice.overrun();
    this.#turnedOutDear.add(key);
    for (const oldest of this.#turnedOutDear) {
      if (this.#turnedOutDear.size <= MOST_DEAR) break;
      this.#turnedOutDear.delete(oldest);
    }
  }

  async #openIn(slot: GrammarSlot, matcher: PooledMatcher, boundMs: number): Promise<GrammarAnswer> {
    const number = this.#numbers++;
    const grammar = slot.grammars.get(matcher.key)!;
    // Most recently used is last.
    slot.grammars.delete(matcher.key);
    slot.grammars.set(matcher.key, grammar);
    matcher.move(slot, number);
    try {
      const task = { op: 'open', matcher: number, grammar: grammar.number, ids: matcher.ids } as const;
      const answer = await slot.link.run(task, boundMs);
      if (matcher.isClosed) slot.link.tell({ op: 'close', matcher: number });
      else if (!answer.ok) matcher.leave();
      return answer;
    } catch (error) {
      matcher.leave();
      throw error;
    }
  }

  /** Compiles the matcher's constraint and opens it. Rejects with LinkLostError or GrammarError. */
  async #place(matcher: PooledMatcher, dear: boolean): Promise<GrammarAnswer> {
    const { compileMs, openMs } = this.#limits;
    const sliceMs = dear ? Number.POSITIVE_INFINITY : this.#slice.ms;
    const having = this.#used().find((slot) => slot.grammars.has(matcher.key));
    if (having !== undefined) return this.#openIn(having, matcher, openMs);
    const empty = this.#alive().filter((slot) => slot.matchers.size === 0 && !this.#busy.has(slot));
    const first = empty.find((slot) => slot.grammars.has(matcher.key)) ?? empty[0] ?? this.#newSlot();
    this.#busy.add(first);
    const since = performance.now();
    // Where the worker is likely to be lost, the next starts meanwhile.
    if (!dear && this.#slice.isShort && empty.length < 2) this.#newSlot();
    try {
      await this.#compile(first, matcher, Math.min(compileMs, sliceMs));
      const answer = await this.#openIn(first, matcher, Math.min(openMs, sliceMs));
      if (!dear) this.#slice.kept();
      // It was given too little time, beside those that only looked cheap.
      else if (performance.now() - since <= this.#limits.cheapMs) this.#turnedOutDear.delete(matcher.key);
      const used = this.#used().filter((slot) => slot !== first);
      if (!answer.ok || matcher.isClosed || used.length < MOST_USED) return answer;
      const target = used.reduce((a, b) => (a.matchers.size <= b.matchers.size ? a : b));
      // It is known to go well by now, and the empty worker is empty again.
      matcher.release();
      try {
        await this.#compile(target, matcher, compileMs);
      } catch (error) {
        if (error instanceof LinkLostError && error.why !== 'ended') {
          throw new GrammarError('resource_exhausted', `no worker has room for this ${matcher.constraint.kind} now`);
        }
        throw error;
      }
      return await this.#openIn(target, matcher, openMs);
    } finally {
      this.#busy.delete(first);
    }
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

  #used(): readonly GrammarSlot[] {
    return this.#alive().filter((slot) => slot.matchers.size > 0);
  }

  #endEmpty(): void {
    const empty = this.#alive().filter((slot) => slot.matchers.size === 0 && !this.#busy.has(slot));
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
