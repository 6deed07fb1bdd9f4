import {
  BLOCK_TOKENS,
  type BlockCopy,
  type LogitsRow,
  type RunnerLimits,
  type StepBatch,
  type StepSequence,
} from '../model/runner.ts';
import { type AdmissionPolicy, admissionOrder } from './admission-order.ts';
import { HitRate } from './hit-rate.ts';
import { KvCache } from './kv-cache.ts';
import { retractionVictim } from './retraction-victim.ts';
import type { Sequence } from './sequence.ts';

/** A step, and what it does for each sequence. */
export interface Plan {
  readonly batch: StepBatch;
  /** The sequence behind each logits row. */
  readonly sampled: readonly Sequence[];
  /** How far each sequence of the step will be computed, in which residency. */
  readonly reached: readonly { readonly sequence: Sequence; readonly computed: number; readonly residency: number }[];
  readonly prefillRows: number;
  readonly decodeRows: number;
}

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
  /** Prefill rows that may join `decodeRows` decode rows. */
  prefillRows(decodeRows: number): number;
  /** Decode steps for one readback. */
  decodeSteps(): number;
}

/** Decides what each step computes: whom to admit, which rows run, who gives way when blocks run out. */
export class Scheduler {
  readonly kv: KvCache;
  readonly limits: SchedulerLimits;
  /** Of the prompts started. */
  readonly hits = new HitRate();
  /** How often a sequence had to give its blocks back. */
  retractions = 0;
  readonly #runner: RunnerLimits;
  readonly #pace: StepPace;
  readonly #now: () => number;
  readonly #freeSlots: number[];
  readonly #waiting = new Set<Sequence>();
  /** In order of arrival. */
  #running: Sequence[] = [];

  constructor(runner: RunnerLimits, limits: SchedulerLimits, pace: StepPace, now: () => number) {
    this.#runner = runner;
    const maxRunning = Math.min(limits.maxRunning, runner.maxSequences, runner.maxLogitsRows, runner.maxRows);
    this.limits = { ...limits, maxRunning };
    this.#pace = pace;
    this.#now = now;
    this.kv = new KvCache(runner.blocks, limits);
    this.#freeSlots = Array.from({ length: maxRunning }, (_, i) => maxRunning - 1 - i);
  }

  get waiting(): ReadonlySet<Sequence> {
    return this.#waiting;
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  /** KV slots neither free nor evictable. */
  get usedTokens(): number {
    return (this.#runner.blocks - this.kv.available) * BLOCK_TOKENS;
  }

  add(sequence: Sequence): void {
    this.#waiting.add(sequence);
  }

  /** Takes a sequence out of its queue; what it computed stays cached. */
  remove(sequence: Sequence): void {
    this.#waiting.delete(sequence);
    this.#stop(sequence);
  }

  /** The next step: every decode row that may run, then prefill chunks in order. Undefined: nothing to do now. */
  plan(): Plan | undefined {
    this.#admit();
    const decoding: Sequence[] = [];
    for (const sequence of [...this.#running]) {
      if (sequence.slot >= 0 && sequence.decodes && this.#extend(sequence, 1)) decoding.push(sequence);
    }
    // A later sequence may have taken an earlier one's place.
    const decodes = decoding.filter((sequence) => sequence.slot >= 0);
    const repeat = this.#repeats(decodes);
    const step = new StepBuilder();
    for (const sequence of decodes) step.decode(sequence, repeat);
    if (repeat === 1) this.#prefill(step, decodes.length);
    return step.rows === 0 ? undefined : step.plan(this.kv.takeCopies(), repeat);
  }

  #prefill(step: StepBuilder, decodeRows: number): void {
    let budget = Math.min(this.#runner.maxRows - step.rows, this.#pace.prefillRows(decodeRows));
    for (const sequence of [...this.#running]) {
      if (budget <= 0) return;
      if (sequence.slot < 0 || sequence.decodes) continue;
      let rows = Math.min(sequence.prefillRows, budget);
      // Whoever is in the step already must not give way any more: its blocks are in use.
      if (step.rows > 0) rows = Math.min(rows, this.kv.roomIn(sequence.kv) - sequence.computed);
      if (rows <= 0 || !this.#extend(sequence, rows)) continue;
      step.prefill(sequence, rows);
      budget -= rows;
    }
  }

  /**
   * Decode steps for one readback: several where nobody is in prefill or could be admitted, and all have credit, context
   * and blocks for them. Tokens past a maximum or a stop are made in vain, and dropped.
   */
  #repeats(decodes: readonly Sequence[]): number {
    const admissible = this.#waiting.size > 0 && this.#freeSlots.length > 0;
    if (decodes.length === 0 || admissible || this.#running.some((other) => !other.decodes && other.prefillRows > 0)) {
      return 1;
    }
    if (decodes.some(({ request }) => request.topLogprobs > 0)) return 1;
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
    const cached = (sequence: Sequence) => this.kv.match(sequence.kvKey, sequence.ids).tokens;
    for (const sequence of admissionOrder([...this.#waiting], this.limits.policy, cached, this.#now())) {
      if (this.#freeSlots.length === 0) return;
      // A retracted sequence may wait for its last token, or for credit; any for a prefix that another computes now.
      if (sequence.drawing > 0 || sequence.parked || this.#sharedSoon(sequence)) continue;
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
    const match = this.kv.match(sequence.kvKey, sequence.ids);
    this.#waiting.delete(sequence);
    for (const other of this.#waiting) if (other.arrival < sequence.arrival) other.overtaken++;
    const found = this.kv.begin(sequence.kv, match);
    sequence.computed = found;
    sequence.confirmed = found;
    sequence.residency++;
    sequence.slot = this.#freeSlots.pop()!;
    if (sequence.cachedTokens === undefined) {
      sequence.cachedTokens = Math.min(found, sequence.request.inputIds.length - 1);
      this.hits.add(sequence.request.inputIds.length, sequence.cachedTokens);
    }
    const after = this.#running.findIndex((other) => other.arrival > sequence.arrival);
    this.#running.splice(after < 0 ? this.#running.length : after, 0, sequence);
    return true;
  }

  #fits(sequence: Sequence): boolean {
    // A sequence alone gets what there is, and that is enough for the longest it can become.
    if (this.#running.length === 0) return true;
    const { path } = this.kv.match(sequence.kvKey, sequence.ids);
    const unlocked = path.filter((node) => node.locks === 0).length;
    const missing = Math.ceil((sequence.ids.length + 1) / BLOCK_TOKENS) - path.length;
    // Each running sequence may want a block soon.
    return missing + unlocked + this.#running.length <= this.kv.available;
  }

  /** Whether a running sequence is computing a prefix of this one that the cache does not have yet. */
  #sharedSoon(sequence: Sequence): boolean {
    if (!this.limits.prefixCache || sequence.kvKey.private) return false;
    const cached = this.kv.match(sequence.kvKey, sequence.ids).tokens;
    return this.#running.some((other) => {
      if (other.kvKey.root !== sequence.kvKey.root || other.prefillRows <= 0) return false;
      const most = Math.min(sequence.ids.length, other.ids.length) - 1;
      let common = cached;
      while (common < most && sequence.ids[common] === other.ids[common]) common++;
      const whole = common - (common % BLOCK_TOKENS);
      return whole > cached && other.confirmed < whole && startsAlike(sequence, other, cached);
    });
  }
}

function startsAlike(a: Sequence, b: Sequence, length: number): boolean {
  for (let i = 0; i < length; i++) if (a.ids[i] !== b.ids[i]) return false;
  return true;
}

/** Gathers one step's rows. */
class StepBuilder {
  readonly #sequences: StepSequence[] = [];
  readonly #logits: LogitsRow[] = [];
  readonly #sampled: Sequence[] = [];
  readonly #reached: Plan['reached'][number][] = [];
  #prefillRows = 0;
  #decodeRows = 0;

  get rows(): number {
    return this.#prefillRows + this.#decodeRows;
  }

  decode(sequence: Sequence, steps: number): void {
    this.#logits.push(sequence.logitsRow(this.rows));
    this.#sampled.push(sequence);
    // A token still being drawn is known on the GPU only.
    this.#add(sequence, sequence.drawing > 0 ? 'slot' : sequence.ids.slice(sequence.computed), steps);
    this.#decodeRows++;
    sequence.drawing += steps;
  }

  prefill(sequence: Sequence, rows: number): void {
    const end = sequence.computed + rows;
    const last = end === sequence.ids.length;
    if (last && !sequence.prefillOnly) {
      this.#logits.push(sequence.logitsRow(this.rows + rows - 1));
      this.#sampled.push(sequence);
    }
    this.#add(sequence, sequence.ids.slice(sequence.computed, end), rows);
    this.#prefillRows += rows;
    if (last && !sequence.prefillOnly) sequence.drawing++;
  }

  plan(copies: readonly BlockCopy[], repeat: number): Plan {
    return {
      batch: { sequences: this.#sequences, logits: this.#logits, copies, repeat },
      sampled: this.#sampled,
      reached: this.#reached,
      prefillRows: this.#prefillRows,
      decodeRows: this.#decodeRows,
    };
  }

  #add(sequence: Sequence, tokens: StepSequence['tokens'], advance: number): void {
    const startPosition = sequence.computed;
    sequence.computed += advance;
    const blocks = Math.ceil(sequence.computed / BLOCK_TOKENS);
    this.#sequences.push({
      slot: sequence.slot,
      tokens,
      startPosition,
      blockTable: sequence.kv.table.slice(0, blocks),
    });
    this.#reached.push({ sequence, computed: sequence.computed, residency: sequence.residency });
  }
}
