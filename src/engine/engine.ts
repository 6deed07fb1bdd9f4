import { BLOCK_TOKENS, type Runner, type SampledRow } from '../model/runner.ts';
import { StepError } from '../model/step-metadata.ts';
import type { AdmissionPolicy } from './admission-order.ts';
import type { EngineLoad } from './engine-load.ts';
import type { EngineOptions } from './engine-options.ts';
import type { EngineEvent, FailureCode } from './event.ts';
import { Pace } from './pace.ts';
import { refusalOf } from './refusal.ts';
import type { EngineRequest } from './request.ts';
import { Scheduler } from './scheduler.ts';
import { type Ending, Sequence } from './sequence.ts';
import { settledWithin } from './settled-within.ts';
import type { Plan } from './step-builder.ts';
import { Throughput } from './throughput.ts';

interface StepInFlight {
  readonly plan: Plan;
  readonly rows: Promise<readonly SampledRow[]>;
  readonly submittedAt: number;
  readonly planMs: number;
}

const THROUGHPUT_WINDOW_MS = 5_000;
/** Whose prefixes may be shared: (weights version, adapter); there is one of each. */
const KV_ROOT = '0';
/** How old the count of waiting tokens without a cached prefix may be. */
const UNCACHED_MS = 250;
/** A step that takes longer never ends: the GPU hangs. */
const STEP_TIMEOUT_MS = 120_000;

/** Serves requests: plans steps, keeps the GPU busy with them, and tells what they bring. */
export class Engine {
  readonly #options: EngineOptions;
  readonly #runner: Runner;
  readonly #scheduler: Scheduler;
  readonly #pace: Pace;
  readonly #throughput: Throughput;
  #uncached = { at: Number.NEGATIVE_INFINITY, tokens: 0 };
  #arrivals = 0;
  #tokensMade = 0;
  #stepping = false;
  /** Why it can't run any more, such as a lost device. */
  #broken: string | undefined;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#runner = options.runner;
    this.#pace = new Pace(Math.min(options.limits.prefillRows, options.runner.limits.maxRows));
    this.#scheduler = new Scheduler(options.runner.limits, options.limits, this.#pace, options.now);
    this.#throughput = new Throughput(THROUGHPUT_WINDOW_MS, options.now);
  }

  /** No sequence runs or waits. */
  get idle(): boolean {
    return this.#scheduler.running.length === 0 && this.#scheduler.waiting.size === 0;
  }

  /** For checks: whom it runs, and which blocks they hold. */
  get scheduler(): Scheduler {
    return this.#scheduler;
  }

  load(): EngineLoad {
    const { running, waiting, kv, usedTokens, limits } = this.#scheduler;
    const queued = [...waiting];
    return {
      running: running.length,
      waiting: waiting.size,
      retracted: queued.filter((sequence) => sequence.residency > 0).length,
      usedTokens,
      maxTokens: kv.blocks * BLOCK_TOKENS,
      cachedTokens: kv.cachedBlocks * BLOCK_TOKENS,
      cacheHitRate: this.#scheduler.hits.rate,
      waitingUncachedTokens: this.#waitingUncached(),
      maxRunning: limits.maxRunning,
      genThroughput: this.#throughput.perSecond(),
      weightBytes: this.#runner.weightBytes,
      kvBytes: this.#runner.kvBytes,
      gpuBytes: this.#runner.allocatedBytes,
      tokensMade: this.#tokensMade,
    };
  }

  /** Looks every waiting sequence up in the cache, so it isn't done for each report. */
  #waitingUncached(): number {
    const now = this.#options.now();
    if (now - this.#uncached.at >= UNCACHED_MS) {
      const { waiting, kv } = this.#scheduler;
      let tokens = 0;
      for (const { ids, kvKey } of waiting) tokens += ids.length - kv.match(kvKey, ids).tokens;
      this.#uncached = { at: now, tokens };
    }
    return this.#scheduler.waiting.size === 0 ? 0 : this.#uncached.tokens;
  }

  /** Takes a request in. Every sample answers with events and ends with one `finished` or `failed`. */
  submit(request: EngineRequest): void {
    const refusal = this.#refusal(request);
    if (refusal) {
      const { onEvents } = this.#options;
      onEvents(request.samples.map(({ index }) => ({ type: 'failed', jobId: request.jobId, index, ...refusal })));
      return;
    }
    const arrivedAt = this.#options.now();
    for (const sample of request.samples) {
      const order = { arrival: this.#arrivals++, arrivedAt, kvRoot: KV_ROOT };
      const sequence = new Sequence(request, sample, this.#options.tokens, order);
      if (sequence.ending) this.#options.onEvents([this.#end(sequence, sequence.ending)]);
      else this.#scheduler.add(sequence);
    }
    this.#wake();
  }

  /** Ends all samples of a job that still run or wait. False: there is none. */
  abort(jobId: bigint): boolean {
    const sequences = this.#sequences(jobId);
    const events = sequences.map((sequence) => this.#end(sequence, { reason: 'abort', matched: undefined }));
    if (events.length > 0) this.#options.onEvents(events);
    this.#wake();
    return sequences.length > 0;
  }

  /** Ends everything without a word: its relay is gone. */
  abortAll(): void {
    for (const sequence of this.#all()) this.#remove(sequence);
  }

  /** Raises the number of output tokens that a sample may make; a lower number than before changes nothing. */
  grant(jobId: bigint, index: number, credit: number): void {
    for (const sequence of this.#sequences(jobId)) {
      if (sequence.index === index) sequence.credit = Math.max(sequence.credit, credit);
    }
    this.#wake();
  }

  /** In which order waiting sequences are admitted from now on. */
  setPolicy(policy: AdmissionPolicy): void {
    this.#scheduler.policy = policy;
  }

  /** Forgets every cached prefix that no sequence runs on. Returns the tokens given back. */
  flushCache(): number {
    return this.#scheduler.kv.flush() * BLOCK_TOKENS;
  }

  #refusal(request: EngineRequest): { code: FailureCode; message: string } | undefined {
    if (this.#broken !== undefined) return { code: 'unavailable', message: this.#broken };
    const waiting = this.#scheduler.waiting.size;
    return refusalOf(request, this.#runner.limits, this.#scheduler.limits.maxWaiting - waiting);
  }

  #all(): Sequence[] {
    return [...this.#scheduler.running, ...this.#scheduler.waiting];
  }

  #sequences(jobId: bigint): Sequence[] {
    return this.#all().filter((sequence) => sequence.request.jobId === jobId);
  }

  #wake(): void {
    if (!this.#stepping && this.#broken === undefined) void this.#loop();
  }

  /** Keeps `stepsInFlight` steps with the GPU: while it runs one, the next is planned, encoded and waiting for it. */
  async #loop(): Promise<void> {
    this.#stepping = true;
    const inFlight: StepInFlight[] = [];
    let lastEnd = Number.NEGATIVE_INFINITY;
    try {
      for (;;) {
        while (inFlight.length < this.#options.limits.stepsInFlight) {
          const step = this.#launch();
          if (!step) break;
          inFlight.push(step);
        }
        const first = inFlight.shift();
        if (!first) break;
        const rows = await this.#resultsOf(first);
        if (rows) lastEnd = this.#finish(first, rows, lastEnd);
      }
    } catch (error) {
      this.#break(error);
    } finally {
      this.#stepping = false;
    }
  }

  #launch(): StepInFlight | undefined {
    const { now } = this.#options;
    const startedAt = now();
    const plan = this.#scheduler.plan();
    if (!plan) return undefined;
    const rows = this.#runner.step(plan.batch);
    // A step behind one that fails is never waited for.
    rows.catch(() => {});
    const submittedAt = now();
    return { plan, rows, submittedAt, planMs: submittedAt - startedAt };
  }

  /** Undefined: the runner refused the step, which left no trace, and its sequences are failed. */
  async #resultsOf({ plan, rows }: StepInFlight): Promise<readonly SampledRow[] | undefined> {
    try {
      return await settledWithin(STEP_TIMEOUT_MS, rows, `a step took over ${STEP_TIMEOUT_MS / 1000} s: the GPU hangs`);
    } catch (error) {
      if (!(error instanceof StepError)) throw error;
      const sequences = plan.reached.map(({ sequence }) => sequence);
      this.#fail(sequences, 'internal', `the step was refused: ${error.message}`);
      return undefined;
    }
  }

  /** Takes a step's results. Returns when it ended. */
  #finish({ plan, submittedAt, planMs }: StepInFlight, rows: readonly SampledRow[], lastEnd: number): number {
    const { now, onStep } = this.#options;
    const endedAt = now();
    this.#postprocess(plan, rows);
    const { decodeRows, prefillRows } = plan;
    const steps = plan.batch.repeat ?? 1;
    const ms = endedAt - Math.max(lastEnd, submittedAt);
    this.#pace.measured({ decodeRows, prefillRows, steps, ms });
    onStep?.({ hostMs: planMs + now() - endedAt, ms, decodeRows, prefillRows, steps });
    return endedAt;
  }

  #postprocess(plan: Plan, rows: readonly SampledRow[]): void {
    const events: EngineEvent[] = [];
    const { sampled } = plan;
    for (const { sequence, computed, residency } of plan.reached) {
      if (!sequence.ended && sequence.residency === residency && sequence.slot >= 0) sequence.confirmed = computed;
    }
    let made = 0;
    for (let i = 0; i < rows.length; i++) {
      const sequence = sampled[i % sampled.length]!;
      if (sequence.ended) continue;
      made++;
      events.push(...this.#take(sequence, rows[i]!));
    }
    for (const { sequence } of plan.reached) {
      if (sequence.ended || sequence.slot < 0) continue;
      if (sequence.prefillOnly && sequence.confirmed === sequence.ids.length) {
        events.push(this.#end(sequence, { reason: 'length', matched: undefined }));
      } else this.#scheduler.kv.share(sequence.kvKey, sequence.kv, sequence.ids, sequence.shareable);
    }
    this.#tokensMade += made;
    this.#throughput.add(made);
    if (events.length > 0) this.#options.onEvents(events);
  }

  #take(sequence: Sequence, row: SampledRow): EngineEvent[] {
    const { jobId } = sequence.request;
    if (row.nonFinite) {
      this.#remove(sequence);
      // What led here may be cached, and would spoil whoever shares it.
      this.#scheduler.kv.flush();
      const message = 'the logits hold a NaN or an infinity';
      return [{ type: 'failed', jobId, index: sequence.index, code: 'internal', message }];
    }
    const offset = sequence.outputLength;
    const ending = sequence.append(row.id);
    const tokens: EngineEvent = {
      type: 'tokens',
      jobId,
      index: sequence.index,
      offset,
      ids: [row.id],
      cachedTokens: sequence.cachedTokens ?? 0,
      logprobs: row.logprob === undefined ? [] : [row.logprob],
      topLogprobs: row.top === undefined ? [] : [row.top],
    };
    return ending ? [tokens, this.#end(sequence, ending)] : [tokens];
  }

  #end(sequence: Sequence, ending: Ending): EngineEvent {
    this.#remove(sequence);
    return {
      type: 'finished',
      jobId: sequence.request.jobId,
      index: sequence.index,
      ...ending,
      completionTokens: sequence.outputLength,
      cachedTokens: sequence.cachedTokens ?? 0,
    };
  }

  #remove(sequence: Sequence): void {
    sequence.ended = true;
    this.#scheduler.remove(sequence);
  }

  /** The runner failed: nothing it holds can be trusted any more. */
  #break(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#broken = message;
    this.#fail(this.#all(), 'unavailable', message);
    this.#options.onBroken?.(message);
  }

  #fail(sequences: readonly Sequence[], code: FailureCode, message: string): void {
    const events: EngineEvent[] = [];
    for (const sequence of sequences) {
      if (sequence.ended) continue;
      this.#remove(sequence);
      events.push({ type: 'failed', jobId: sequence.request.jobId, index: sequence.index, code, message });
    }
    if (events.length > 0) this.#options.onEvents(events);
  }
}
