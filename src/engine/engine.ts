import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import { BLOCK_TOKENS, type Runner, type SampledRow } from '../model/runner.ts';
import type { EngineEvent, FailureCode } from './event.ts';
import type { EngineRequest } from './request.ts';
import { type Plan, Scheduler, type SchedulerLimits } from './scheduler.ts';
import { blocksNeeded, type Ending, Sequence } from './sequence.ts';
import { Throughput } from './throughput.ts';

/** Counted values of an engine, at one moment. */
export interface EngineLoad {
  readonly running: number;
  readonly waiting: number;
  /** KV positions in use, and those there are. */
  readonly usedTokens: number;
  readonly maxTokens: number;
  readonly maxRunning: number;
  /** Output tokens a second over the last five. */
  readonly genThroughput: number;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** All live GPU buffers. */
  readonly gpuBytes: number;
  /** Output tokens since the start. */
  readonly tokensMade: number;
}

export interface EngineOptions {
  readonly runner: Runner;
  readonly tokens: TokenBytes;
  readonly limits: SchedulerLimits;
  /** Called after each step with what it brought, and at once for what ends outside a step. */
  readonly onEvents: (events: readonly EngineEvent[]) => void;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
}

const THROUGHPUT_WINDOW_MS = 5_000;

/** Serves requests: plans steps, runs them one after another while there is work, and tells what they bring. */
export class Engine {
  readonly #runner: Runner;
  readonly #tokens: TokenBytes;
  readonly #scheduler: Scheduler;
  readonly #onEvents: (events: readonly EngineEvent[]) => void;
  readonly #throughput: Throughput;
  #tokensMade = 0;
  #stepping = false;
  /** Why it can't run any more, such as a lost device. */
  #broken: string | undefined;

  constructor(options: EngineOptions) {
    this.#runner = options.runner;
    this.#tokens = options.tokens;
    this.#scheduler = new Scheduler(options.runner.limits, options.limits);
    this.#onEvents = options.onEvents;
    this.#throughput = new Throughput(THROUGHPUT_WINDOW_MS, options.now);
  }

  /** No sequence runs or waits. */
  get idle(): boolean {
    return this.#scheduler.running.length === 0 && this.#scheduler.waiting.length === 0;
  }

  load(): EngineLoad {
    return {
      running: this.#scheduler.running.length,
      waiting: this.#scheduler.waiting.length,
      usedTokens: this.#scheduler.usedTokens,
      maxTokens: this.#runner.limits.blocks * BLOCK_TOKENS,
      maxRunning: this.#scheduler.limits.maxRunning,
      genThroughput: this.#throughput.perSecond(),
      weightBytes: this.#runner.weightBytes,
      kvBytes: this.#runner.kvBytes,
      gpuBytes: this.#runner.allocatedBytes,
      tokensMade: this.#tokensMade,
    };
  }

  /** Takes a request in. Every sample answers with events and ends with one `finished` or `failed`. */
  submit(request: EngineRequest): void {
    const refusal = this.#refusal(request);
    if (refusal) {
      this.#onEvents(request.samples.map(({ index }) => ({ type: 'failed', jobId: request.jobId, index, ...refusal })));
      return;
    }
    for (const sample of request.samples) {
      const sequence = new Sequence(request, sample, this.#tokens);
      if (sequence.ending) this.#onEvents([this.#end(sequence, sequence.ending)]);
      else this.#scheduler.add(sequence);
    }
    this.#wake();
  }

  /** Ends all samples of a job that still run or wait. False: there is none. */
  abort(jobId: bigint): boolean {
    const sequences = this.#sequences(jobId);
    this.#onEvents(sequences.map((sequence) => this.#end(sequence, { reason: 'abort', matched: undefined })));
    return sequences.length > 0;
  }

  /** Ends everything without a word: its relay is gone. */
  abortAll(): void {
    for (const sequence of [...this.#scheduler.running, ...this.#scheduler.waiting]) this.#remove(sequence);
  }

  /** Raises the number of output tokens that a sample may make; a lower number than before changes nothing. */
  grant(jobId: bigint, index: number, credit: number): void {
    for (const sequence of this.#sequences(jobId)) {
      if (sequence.index === index) sequence.credit = Math.max(sequence.credit, credit);
    }
    this.#wake();
  }

  #refusal(request: EngineRequest): { code: FailureCode; message: string } | undefined {
    if (this.#broken !== undefined) return { code: 'unavailable', message: this.#broken };
    const { contextLength, vocabSize, blocks } = this.#runner.limits;
    const { inputIds, maxNewTokens } = request;
    const emitted = request.samples.map((sample) => sample.emittedIds);
    if (inputIds.length === 0) return { code: 'invalid_argument', message: 'input_ids is empty' };
    if ([inputIds, ...emitted].some((ids) => ids.some((id) => id >= vocabSize))) {
      return { code: 'invalid_argument', message: `an input id is outside the vocabulary of ${vocabSize}` };
    }
    if (emitted.some((ids) => ids.length > 0 && ids.length >= maxNewTokens)) {
      return { code: 'invalid_argument', message: 'a sample has all its tokens already' };
    }
    if (inputIds.length + maxNewTokens > contextLength) {
      return {
        code: 'invalid_argument',
        message: `${inputIds.length} input and ${maxNewTokens} new tokens are over the context of ${contextLength}`,
      };
    }
    const { maxWaiting } = this.#scheduler.limits;
    if (this.#scheduler.waiting.length + request.samples.length > maxWaiting) {
      return { code: 'resource_exhausted', message: `${maxWaiting} sequences wait already` };
    }
    const needed = blocksNeeded(request);
    if (needed > blocks) {
      return { code: 'resource_exhausted', message: `${needed} KV blocks are needed, the pool has ${blocks}` };
    }
    return undefined;
  }

  #sequences(jobId: bigint): Sequence[] {
    const { running, waiting } = this.#scheduler;
    return [...running, ...waiting].filter((sequence) => sequence.request.jobId === jobId);
  }

  #wake(): void {
    if (!this.#stepping) void this.#loop();
  }

  async #loop(): Promise<void> {
    this.#stepping = true;
    try {
      for (let plan = this.#scheduler.plan(); plan; plan = this.#scheduler.plan()) {
        this.#postprocess(plan, await this.#runner.step(plan.batch));
      }
    } catch (error) {
      this.#break(error);
    } finally {
      this.#stepping = false;
    }
  }

  #postprocess(plan: Plan, rows: readonly SampledRow[]): void {
    const events: EngineEvent[] = [];
    const live = plan.sampled.filter((sequence) => !sequence.ended);
    this.#tokensMade += live.length;
    this.#throughput.add(live.length);
    plan.sampled.forEach((sequence, i) => {
      if (!sequence.ended) events.push(...this.#take(sequence, rows[i]!));
    });
    for (const sequence of plan.prefilled) {
      if (!sequence.ended) events.push(this.#end(sequence, { reason: 'length', matched: undefined }));
    }
    if (events.length > 0) this.#onEvents(events);
  }

  #take(sequence: Sequence, row: SampledRow): EngineEvent[] {
    const { jobId } = sequence.request;
    if (row.nonFinite) {
      this.#remove(sequence);
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
      cachedTokens: sequence.cachedTokens,
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
      cachedTokens: sequence.cachedTokens,
    };
  }

  #remove(sequence: Sequence): void {
    sequence.ended = true;
    this.#scheduler.remove(sequence);
  }

  /** The runner failed: nothing it holds can be trusted any more. */
  #break(error: unknown): void {
    this.#broken = error instanceof Error ? error.message : String(error);
    const sequences = [...this.#scheduler.running, ...this.#scheduler.waiting];
    const message = this.#broken;
    this.#onEvents(
      sequences.map((sequence) => {
        this.#remove(sequence);
        return { type: 'failed', jobId: sequence.request.jobId, index: sequence.index, code: 'unavailable', message };
      }),
    );
  }
}
