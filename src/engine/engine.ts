import { BLOCK_TOKENS, type Runner } from '../model/runner.ts';
import type { AdmissionPolicy } from './admission-order.ts';
import { awaitKernels } from './await-kernels.ts';
import type { CacheNews } from './cache-log.ts';
import { Constraints } from './constraints.ts';
import type { EngineLoad } from './engine-load.ts';
import type { EngineOptions } from './engine-options.ts';
import { kvRootOf } from './kv-root.ts';
import { LoraAdapters } from './lora-adapters.ts';
import { MeasuredSteps } from './measured-steps.ts';
import type { Ending } from './output-stops.ts';
import { Pace } from './pace.ts';
import type { Profile, ProfileRequest } from './profile.ts';
import { Profiling } from './profiling.ts';
import { type Refusal, refusalOf } from './refusal.ts';
import type { EngineRequest } from './request.ts';
import { scheduledLoad } from './scheduled-load.ts';
import { Scheduler } from './scheduler.ts';
import { Sequence } from './sequence.ts';
import { SequenceEnds } from './sequence-ends.ts';
import { type Speculating, Speculation } from './speculation.ts';
import { StepResults } from './step-results.ts';
import { type StepOutcome, StepsInFlight } from './steps-in-flight.ts';
import { Stops } from './stops.ts';
import { Throughput } from './throughput.ts';
import { UncachedTokens } from './uncached-tokens.ts';

const THROUGHPUT_WINDOW_MS = 5_000;

/** Serves requests: plans steps, keeps the GPU busy with them, and tells what they bring. */
export class Engine {
  /** LoRA adapters that requests may name. */
  readonly lora: LoraAdapters;
  /** For checks: whom it runs, and which blocks they hold. */
  readonly scheduler: Scheduler;
  readonly #options: EngineOptions;
  readonly #runner: Runner;
  readonly #speculation: Speculating | undefined;
  readonly #times: MeasuredSteps;
  readonly #throughput: Throughput;
  readonly #uncached: UncachedTokens;
  readonly #ends: SequenceEnds;
  readonly #results: StepResults;
  readonly #constraints: Constraints | undefined;
  readonly #profiling: Profiling;
  #arrivals = 0;
  #tokensMade = 0;
  #requestsTaken = 0;
  #stepping = false;
  /** Why it can't run any more, such as a lost device. */
  #broken: string | undefined;

  constructor(options: EngineOptions) {
    const { runner, limits, grammars, maskPatienceMs: patienceMs, onEvents, now, speculation = 'off' } = options;
    this.#options = options;
    this.#runner = runner;
    const pace = new Pace(Math.min(limits.prefillRows, runner.limits.maxRows));
    this.#speculation = speculation === 'auto' ? new Speculation() : speculation === 'off' ? undefined : speculation;
    this.scheduler = new Scheduler(runner.limits, limits, pace, now, this.#speculation);
    this.#times = new MeasuredSteps(pace, this.#speculation);
    this.lora = new LoraAdapters(runner, (root) => this.scheduler.kv.forget({ root, private: false }));
    this.#profiling = new Profiling(runner);
    this.#throughput = new Throughput(THROUGHPUT_WINDOW_MS, now);
    this.#uncached = new UncachedTokens(this.scheduler, now);
    const ends = new SequenceEnds(this.scheduler, onEvents);
    this.#ends = ends;
    this.#results = new StepResults({
      kv: this.scheduler.kv,
      speculation: this.#speculation,
      ends,
      onEvents,
      onTokens: (count) => {
        this.#tokensMade += count;
        this.#throughput.add(count);
      },
      onMatched: () => this.#wake(),
      onError: (error) => this.#break(error),
    });
    this.#constraints = grammars && new Constraints({ grammars, ends, onEvents, now, patienceMs });
  }

  /** No sequence runs or waits. */
  get idle(): boolean {
    return this.scheduler.running.length === 0 && this.scheduler.waiting.size === 0;
  }

  load(): EngineLoad {
    return {
      ...scheduledLoad(this.scheduler, this.#runner),
      speculation: this.#speculation?.counts.drafts ? { ...this.#speculation.counts } : undefined,
      waitingUncachedTokens: this.#uncached.count,
      genThroughput: this.#throughput.perSecond(),
      requestsTaken: this.#requestsTaken,
      tokensMade: this.#tokensMade,
      lora: this.lora.counts,
    };
  }

  /** Takes a request in. Every sample answers with events and ends with one `finished` or `failed`. */
  submit(request: EngineRequest): void {
    const refusal = this.#refusal(request);
    if (refusal) {
      const { onEvents } = this.#options;
      onEvents(request.samples.map(({ index }) => ({ type: 'failed', jobId: request.jobId, index, ...refusal })));
      return;
    }
    this.#requestsTaken++;
    const arrivedAt = this.#options.now();
    const stops = new Stops(request.stopTokenIds, request.stopStrings);
    const holds = this.lora.hold(request);
    const root = kvRootOf(holds[0]?.version);
    // Ids say nothing of embeddings.
    const kvRoot = request.inputEmbeds ? `${root}, request ${this.#arrivals}` : root;
    for (const [i, sample] of request.samples.entries()) {
      const order = { arrival: this.#arrivals++, arrivedAt, kvRoot, adapter: holds[i] };
      const sequence = new Sequence(request, sample, this.#options.tokens, order, stops);
      if (sequence.ending && !sequence.mayEndAsMet) {
        this.#end([sequence], sequence.ending);
        continue;
      }
      this.scheduler.add(sequence);
      if (request.constraint) this.#open(sequence);
      awaitKernels(this.#runner, sequence, () => this.#wake());
    }
    this.#wake();
  }

  /** Ends all samples of a job that still run or wait. False: there is none. */
  abort(jobId: bigint): boolean {
    const sequences = this.#sequences(jobId);
    this.#end(sequences, { reason: 'abort', matched: undefined });
    this.#wake();
    return sequences.length > 0;
  }

  /** Ends everything without a word: its relay is gone. */
  abortAll(): void {
    for (const sequence of this.#all()) this.#ends.drop(sequence);
    this.#profiling.stop();
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
    this.scheduler.policy = policy;
  }

  /** A prompt is being computed, and somebody waits for its first token. */
  get prefilling(): boolean {
    return this.scheduler.running.some(({ confirmed, ids }) => confirmed + 1 < ids.length);
  }

  /** Forgets every cached prefix that no sequence runs on. Returns the tokens given back. */
  flushCache(): number {
    return this.scheduler.kv.flush() * BLOCK_TOKENS;
  }

  /** Has `takeCacheNews` tell all that is cached anew: to a relay that knows nothing of it. */
  beginCacheNews(): void {
    this.scheduler.kv.prefixes.beginLog();
  }

  /** What changed in the prefix cache since the last call, of at most `most` blocks. */
  takeCacheNews(most: number): readonly CacheNews[] {
    const { prefixes } = this.scheduler.kv;
    return prefixes.log.take(most, prefixes.size);
  }

  get hasCacheNews(): boolean {
    return !this.scheduler.kv.prefixes.log.empty;
  }

  /** Times the kernels of the next steps, which take longer meanwhile. Never rejects: what went wrong is in the answer. */
  profile(request: ProfileRequest): Promise<Profile> {
    return this.#broken === undefined
      ? this.#profiling.start(request)
      : Promise.resolve({ stages: [], problem: this.#broken });
  }

  /** Ends a profile with what there is; harmless where there is none. */
  stopProfile(): void {
    this.#profiling.stop();
  }

  #refusal(request: EngineRequest): Refusal | undefined {
    if (this.#broken !== undefined) return { code: 'unavailable', message: this.#broken };
    if (request.constraint && !this.#constraints) {
      return { code: 'unimplemented', message: `${request.constraint.kind} is not served here` };
    }
    const waiting = this.scheduler.waiting.size;
    return (
      this.lora.refusal(request) ?? refusalOf(request, this.#runner.limits, this.scheduler.limits.maxWaiting - waiting)
    );
  }

  #open(sequence: Sequence): void {
    this.#constraints!.open(sequence).then(
      () => this.#wake(),
      (error) => this.#break(error),
    );
  }

  #all(): Sequence[] {
    return [...this.scheduler.running, ...this.scheduler.waiting];
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
    const { limits, now, throttle } = this.#options;
    const steps = new StepsInFlight({
      runner: this.#runner,
      most: limits.stepsInFlight,
      masks: async (rows) => (this.#constraints ? this.#constraints.masks(rows) : []),
      now,
    });
    try {
      for (;;) {
        while (steps.open) {
          // Kernels are timed alone; and a step behind another has no rest before it.
          if (steps.count > 0 && (this.#profiling.active || throttle?.overlap === false)) break;
          const turn = steps.count === 0 ? throttle?.turn() : undefined;
          // Not for nothing: who wakes the engine expects a plan at once.
          if (turn) {
            await turn;
            this.#times.rested(now());
          }
          let startedAt = now();
          const plan = this.scheduler.plan(steps.count);
          if (!plan) break;
          if (this.#profiling.active) {
            await this.#profiling.measure(plan.batch, plan.prefillRows);
            startedAt = now();
            this.#times.rested(startedAt);
          }
          steps.submit(plan, startedAt);
        }
        // At once: who wakes the engine while this waits for nothing would not be heard.
        if (steps.count === 0) break;
        const outcome = await steps.next();
        if (outcome !== 'drawn') this.#finish(outcome);
      }
      // Matchers may be waited for; clients are no part of what steps take.
      if (this.scheduler.running.every(({ parked }) => parked)) this.#times.idle();
    } catch (error) {
      this.#break(error);
    } finally {
      this.#stepping = false;
    }
  }

  /** Takes a step's results. */
  #finish(outcome: StepOutcome): void {
    const { now, onStep, throttle } = this.#options;
    const { plan, planMs } = outcome.step;
    const endedAt = now();
    if ('refused' in outcome) {
      // The others are unharmed, but slots that it should have started weren't.
      this.scheduler.distrustSlots();
      const sequences = plan.reached.map(({ sequence }) => sequence);
      this.#ends.failAll(sequences, 'internal', `the step was refused: ${outcome.refused}`);
      return;
    }
    const repeatable = plan.wanted.every(({ sequence }) => sequence.repeatable);
    const tokens = this.#results.take(plan, outcome.rows);
    const ms = this.#times.took(outcome.step, repeatable, tokens, endedAt);
    throttle?.took(ms);
    const { decodeRows, draftRows, prefillRows } = plan;
    const steps = plan.batch.repeat ?? 1;
    onStep?.({ hostMs: planMs + now() - endedAt, ms, decodeRows, draftRows, tokens, prefillRows, steps });
  }

  #end(sequences: readonly Sequence[], ending: Ending): void {
    if (sequences.length > 0) this.#options.onEvents(sequences.map((one) => this.#ends.finish(one, ending)));
  }

  /** The runner failed: nothing it holds can be trusted any more. */
  #break(error: unknown): void {
    if (this.#broken !== undefined) return;
    this.#broken = error instanceof Error ? error.message : String(error);
    this.#ends.failAll(this.#all(), 'unavailable', this.#broken);
    this.#profiling.stop(this.#broken);
    this.#options.onBroken?.(this.#broken);
  }
}
