import { mostChunkRows, poolTokens } from '../model/kv-layout.ts';
import { BLOCK_TOKENS, type RunnerLimits } from '../model/runner.ts';
import { type AdmissionPolicy, admissionOrder } from './admission-order.ts';
import type { CacheMatch } from './cache-node.ts';
import { HitRate } from './hit-rate.ts';
import { KvCache } from './kv-cache.ts';
import { borrowedTail, isSharedSoon } from './prompt-sharing.ts';
import { retractionVictim } from './retraction-victim.ts';
import type { Sequence } from './sequence.ts';
import type { Speculating } from './speculation.ts';
import { type Plan, StepBuilder } from './step-builder.ts';
import { StepDrafts } from './step-drafts.ts';
import { StepRoom } from './step-room.ts';

export interface SchedulerLimits {
  /** Sequences running at once. */
  readonly maxRunning: number;
  /** Sequences waiting at once. */
  readonly maxWaiting: number;
  readonly policy: AdmissionPolicy;
  readonly prefixCache: boolean;
}

/** What the measured speed says of the next step. */
export interface StepPace {
  /** Prefill rows of `prompts` sequences that may join `decodeRows` decode rows. */
  prefillRows(decodeRows: number, prompts: number): number;
  /** Decode steps for one readback. */
  decodeSteps(): number;
}

/** Decides what each step computes: whom to admit, which rows run, who gives way when blocks run out. */
export class Scheduler {
  readonly kv: KvCache;
  readonly limits: SchedulerLimits;
  /** Of the prompts started. */
  readonly hits = new HitRate();
  policy: AdmissionPolicy;
  /** How often a sequence had to give its blocks back. */
  retractions = 0;
  readonly #runner: RunnerLimits;
  readonly #pace: StepPace;
  readonly #now: () => number;
  /** Who drafts; undefined: nobody. */
  readonly #speculation: Speculating | undefined;
  readonly #drafts: StepDrafts | undefined;
  readonly #freeSlots: number[];
  /** Rows of one sequence that a step may have. */
  readonly #chunkRows: number;
  /** Those whose state on the GPU may be a former owner's; at first any, since a runner may have served before. */
  readonly #usedSlots = new Set<number>();
  readonly #waiting = new Set<Sequence>();
  /** In order of arrival. */
  #running: Sequence[] = [];
  #steps = 0;

  constructor(
    runner: RunnerLimits,
    limits: SchedulerLimits,
    pace: StepPace,
    now: () => number,
    speculation?: Speculating,
  ) {
    this.#runner = runner;
    this.#speculation = speculation;
    this.policy = limits.policy;
    const maxRunning = Math.min(limits.maxRunning, runner.maxSequences, runner.maxLogitsRows, runner.maxRows);
    this.limits = { ...limits, maxRunning };
    this.#pace = pace;
    this.#now = now;
    this.kv = new KvCache(runner.kvGroups, { ...limits, toldBlocks: Math.ceil(this.maxTokens / BLOCK_TOKENS) });
    this.#drafts = speculation && new StepDrafts(speculation, runner, this.kv);
    this.#chunkRows = Math.min(runner.maxRows, mostChunkRows(runner.kvGroups));
    this.#freeSlots = Array.from({ length: maxRunning }, (_, i) => maxRunning - 1 - i);
    this.distrustSlots();
  }

  get waiting(): ReadonlySet<Sequence> {
    return this.#waiting;
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  /** Of `maxTokens` the share that the fullest pool has neither free nor evictable. */
  get usedTokens(): number {
    return Math.ceil((this.kv.usedBlocks * this.maxTokens) / this.#runner.kvGroups[0]!.blocks);
  }

  /** What the pools hold; see poolTokens. */
  get maxTokens(): number {
    return poolTokens(this.#runner.kvGroups, this.#runner.contextLength);
  }

  /** Tokens of a waiting sequence that are cached. */
  cachedTokens(sequence: Sequence): number {
    return this.#match(sequence).tokens;
  }

  add(sequence: Sequence): void {
    this.#waiting.add(sequence);
  }

  /** Takes a sequence out of its queue; what it computed stays cached. */
  remove(sequence: Sequence): void {
    this.#waiting.delete(sequence);
    this.#stop(sequence);
    const { kvKey, request } = sequence;
    const left = (other: Sequence) => other.request === request && other !== sequence;
    if (kvKey.private && ![...this.#running, ...this.#waiting].some(left)) this.kv.forget(kvKey);
  }

  /** What slots hold on the GPU is unknown: a step that should have started some wasn't made. */
  distrustSlots(): void {
    for (let slot = 0; slot < this.limits.maxRunning; slot++) this.#usedSlots.add(slot);
  }

  /**
   * The next step, behind `inFlight` others: every decode row that may run, with drafts where they win, then prefill
   * chunks in order. Undefined: nothing to do now.
   */
  plan(inFlight = 0): Plan | undefined {
    // What comes after a draft follows from how much of it was right.
    if (this.#running.some(({ drafts }) => drafts.guesses !== undefined)) return undefined;
    // A draft follows the ids that are being drawn. Nobody is let in for a step that isn't planned.
    const awaited = this.#drafts !== undefined && !this.#prefilling && this.#drafts.awaited(this.#running);
    if (awaited && inFlight > 0) return undefined;
    this.#admit();
    // Room kept for a sequence that then finds no blocks is another's the next time.
    for (let attempt = 0; attempt <= this.limits.maxRunning; attempt++) {
      const { plan, leftOut } = this.#planOnce(awaited);
      if (plan || !leftOut) return plan;
    }
    return undefined;
  }

  /** `leftOut`: some row could run but for the limits on what rows tell. */
  #planOnce(awaited: boolean): { plan: Plan | undefined; leftOut: boolean } {
    // With no step in flight, what is being drawn is with its matcher, which wakes the engine.
    const waits = ({ drawing }: Sequence) => awaited && drawing > 0;
    const ready = this.#running.filter(
      (sequence) => (sequence.decodes && !waits(sequence)) || sequence.prefillRows > 0,
    );
    const room = new StepRoom(this.#runner, ready, ++this.#steps);
    const decoding: Sequence[] = [];
    let leftOut = false;
    for (const sequence of ready) {
      if (sequence.slot < 0 || !sequence.decodes) continue;
      if (room.fit(sequence, 1) === 0) leftOut = true;
      else if (this.#extend(sequence, 1)) {
        room.take(sequence, 1);
        decoding.push(sequence);
      }
    }
    // A later sequence may have taken an earlier one's place, or the block that another was to copy.
    const decodes = decoding.filter((sequence) => sequence.slot >= 0 && sequence.decodes);
    const drafts = leftOut || !this.#drafts || this.#prefilling ? undefined : this.#drafts.choose(decodes, room);
    const repeat = leftOut || drafts ? 1 : this.#repeats(decodes);
    const step = new StepBuilder(this.#usedSlots);
    for (const sequence of decodes) {
      const guesses = drafts?.get(sequence);
      if (guesses) step.draft(sequence, guesses);
      else step.decode(sequence, repeat);
    }
    if (step.rows > 0) this.#speculation?.planned(drafts !== undefined);
    if (repeat === 1 && !drafts && this.#prefill(step, decodes.length, room)) leftOut = true;
    return { plan: step.rows === 0 ? undefined : step.plan(this.kv.takeCopies(), repeat), leftOut };
  }

  /** True: a prompt was left out, for want of room for what its rows tell. */
  #prefill(step: StepBuilder, decodeRows: number, room: StepRoom): boolean {
    const prompts = this.#running.filter((sequence) => !sequence.decodes && sequence.prefillRows > 0).length;
    if (prompts === 0) return false;
    let leftOut = false;
    let budget = Math.min(this.#runner.maxRows - step.rows, this.#pace.prefillRows(decodeRows, prompts));
    for (const sequence of [...this.#running]) {
      if (budget <= 0) break;
      if (sequence.slot < 0 || sequence.decodes) continue;
      let rows = Math.min(sequence.prefillRows, budget, this.#chunkRows);
      // None that the step has already: it still sees what is behind its next row's window.
      if (rows <= 0) continue;
      this.kv.slide(sequence.kvKey, sequence.kv, sequence.computed);
      // Whoever is in the step already must not give way any more: its blocks are in use.
      if (step.rows > 0) rows = Math.min(rows, this.kv.roomIn(sequence.kv) - sequence.computed);
      if (rows <= 0) continue;
      rows = room.fit(sequence, rows);
      if (rows === 0) leftOut = true;
      if (rows === 0) continue;
      if (!this.#extend(sequence, rows)) {
        // Nobody is left to give way: what a copy is to come from, and what is behind its window, may go after this step.
        if (sequence.slot >= 0) rows = Math.min(rows, this.kv.roomIn(sequence.kv) - sequence.computed);
        if (sequence.slot < 0 || rows <= 0 || !this.#extend(sequence, rows)) continue;
      }
      room.take(sequence, rows);
      step.prefill(sequence, rows);
      budget -= rows;
    }
    return leftOut;
  }

  /** Somebody is or may soon be in prefill: drafts are for steps of decode rows alone. */
  get #prefilling(): boolean {
    const admissible = this.#freeSlots.length > 0 && [...this.#waiting].some((sequence) => !sequence.compiling);
    return admissible || this.#running.some((sequence) => !sequence.decodes && sequence.prefillRows > 0);
  }

  /**
   * Decode steps for one readback: several where nobody is in prefill or could be admitted, and all have credit, context
   * and blocks for them. Tokens past a maximum or a stop are made in vain, and dropped.
   */
  #repeats(decodes: readonly Sequence[]): number {
    if (decodes.length === 0 || this.#prefilling || this.#speculation?.hot) return 1;
    if (decodes.some((sequence) => !sequence.repeatable)) return 1;
    let steps = this.#pace.decodeSteps();
    for (const { credit, outputLength, drawing, computed } of decodes) {
      steps = Math.min(steps, credit - outputLength - drawing, this.#runner.contextLength - computed);
    }
    // Blocks that are taken and not used stay with their sequences.
    const all = decodes.every((sequence) => this.kv.extend(sequence.kv, sequence.computed + steps));
    return all ? steps : 1;
  }

  /** Blocks for `rows` more rows; others give way if need be. False: it has to wait, or gave way itself. */
  #extend(sequence: Sequence, rows: number): boolean {
    this.kv.slide(sequence.kvKey, sequence.kv, sequence.computed);
    while (!this.kv.extend(sequence.kv, sequence.computed + rows)) {
      const victim = retractionVictim(this.#running);
      if (!victim) return false;
      this.#retract(victim);
      if (victim === sequence) return false;
    }
    return true;
  }

  #retract(sequence: Sequence): void {
    this.retractions++;
    this.#stop(sequence);
    this.#waiting.add(sequence);
  }

  #stop(sequence: Sequence): void {
    if (sequence.slot < 0) return;
    this.kv.end(sequence.kvKey, sequence.kv, sequence.ids, sequence.shareable);
    this.#freeSlots.push(sequence.slot);
    this.#running = this.#running.filter((other) => other !== sequence);
    sequence.slot = -1;
    sequence.computed = 0;
    sequence.confirmed = 0;
  }

  #admit(): void {
    if (this.#waiting.size === 0 || this.#freeSlots.length === 0) return;
    const cached = (sequence: Sequence) => this.cachedTokens(sequence);
    for (const sequence of admissionOrder([...this.#waiting], this.policy, cached, this.#now())) {
      if (this.#freeSlots.length === 0) return;
      // A retracted sequence may wait for its last token, or for credit.
      if (sequence.drawing > 0 || sequence.parked || sequence.compiling) continue;
      // Any may wait for a prefix that another computes now.
      if (this.limits.prefixCache && isSharedSoon(sequence, this.#running, cached(sequence))) continue;
      // Nobody overtakes the first in line for want of blocks: it would never get a large share of a busy cache.
      if (!this.#start(sequence)) return;
    }
  }

  #start(sequence: Sequence): boolean {
    while (!this.#fits(sequence)) {
      // A slow client's sequence holds blocks and makes nothing of them.
      const parked = this.#running.find((other) => other.parked && other.drawing === 0);
      if (!parked) return false;
      this.#retract(parked);
    }
    const match = this.#match(sequence);
    this.#waiting.delete(sequence);
    for (const other of this.#waiting) if (other.arrival < sequence.arrival) other.overtaken++;
    const whole = match.path.length * BLOCK_TOKENS;
    const borrowed = this.limits.prefixCache ? borrowedTail(sequence, this.#running, whole) : undefined;
    const found = this.kv.begin(sequence.kvKey, sequence.kv, match, borrowed, (tokens) => sequence.begunAt(tokens));
    sequence.residency++;
    sequence.begunAt(found);
    sequence.slot = this.#freeSlots.pop()!;
    if (sequence.residency === 1) this.hits.add(sequence.request.inputIds.length, sequence.cachedTokens ?? 0);
    const after = this.#running.findIndex((other) => other.arrival > sequence.arrival);
    this.#running.splice(after < 0 ? this.#running.length : after, 0, sequence);
    return true;
  }

  #fits(sequence: Sequence): boolean {
    // A sequence alone gets what there is, and that is enough for the longest it can become.
    if (this.#running.length === 0) return true;
    const match = this.#match(sequence);
    // Each running sequence may want a block soon.
    return this.kv.hasRoom(sequence.kvKey, match, sequence.ids.length + 1, this.#chunkRows, this.#running.length);
  }

  /** What is cached of it, as far as it need not be computed. */
  #match(sequence: Sequence): CacheMatch {
    return this.kv.match(sequence.kvKey, sequence.ids, sequence.cacheLimit);
  }
}
