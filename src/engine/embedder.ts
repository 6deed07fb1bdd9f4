import type { EmbedLimits, EmbedRunner } from '../model/embed-runner.ts';
import { StepError } from '../model/step-error.ts';
import { EmbedAborted, EmbedFailure, type EmbedRequest, type EmbedResult } from './embed-request.ts';
import { withinStepBound } from './step-bound.ts';
import type { StepThrottle } from './step-throttle.ts';
import { Throughput } from './throughput.ts';

/** Steps with the GPU at once: one is packed while another runs. */
const STEPS_IN_FLIGHT = 2;
const THROUGHPUT_MS = 5_000;

export interface EmbedderOptions {
  readonly runner: EmbedRunner;
  /** Names of the classes, of a classifier. */
  readonly labels?: readonly string[] | undefined;
  /** Requests that may wait; one more is refused. */
  readonly maxWaiting: number;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  /** It can't run any more, as after a lost device: everything was failed, and everything will be. */
  readonly onBroken?: (reason: string) => void;
  /** Without it steps follow each other at once. */
  readonly throttle?: StepThrottle | undefined;
}

/** Counted values of an embedder, at one moment. */
export interface EmbedderLoad {
  /** Requests with the GPU. */
  readonly running: number;
  readonly waiting: number;
  /** Requests that one step takes at most. */
  readonly maxRunning: number;
  readonly maxWaiting: number;
  /** Ids of the requests that run, and those of the requests that wait. */
  readonly runningTokens: number;
  readonly waitingTokens: number;
  /** Ids that one step takes at most. */
  readonly maxTokens: number;
  /** Ids a second over the last five. */
  readonly throughput: number;
  /** Requests that were taken in since the start, and ids that were read. */
  readonly requestsTaken: number;
  readonly tokensRead: number;
  readonly weightBytes: number;
  /** All live GPU buffers. */
  readonly gpuBytes: number;
}

interface Job extends EmbedRequest {
  readonly settle: (result: EmbedResult) => void;
  readonly fail: (error: Error) => void;
  aborted: boolean;
}

/**
 * Makes vectors, or logits of classes, of sequences of ids. Requests run in the order in which they come, as many in one
 * step as it has rows for; none is ever cut, so a long one may have a step to itself. What a request gives doesn't depend on those
 * beside it.
 */
export class Embedder {
  readonly kind: 'embedding' | 'classifier';
  /** Numbers of a result. */
  readonly dimension: number;
  /** Of a classifier: the classes' names, in the order of the logits. */
  readonly labels: readonly string[] | undefined;
  readonly limits: EmbedLimits;
  readonly #options: EmbedderOptions;
  readonly #throughput: Throughput;
  /** Taken in and not done, by id. */
  readonly #jobs = new Map<string, Job>();
  #waiting: Job[] = [];
  readonly #running = new Set<Job>();
  #steps = 0;
  #turning = false;
  #requestsTaken = 0;
  #tokensRead = 0;
  #lastEnd = 0;
  #broken: string | undefined;

  constructor(options: EmbedderOptions) {
    const { runner, now } = options;
    this.#options = options;
    this.kind = runner.kind;
    this.dimension = runner.dimension;
    this.labels = options.labels;
    this.limits = runner.limits;
    this.#throughput = new Throughput(THROUGHPUT_MS, now);
  }

  /** Rejects with EmbedFailure, or with EmbedAborted once it was aborted. */
  embed(request: EmbedRequest): Promise<EmbedResult> {
    return new Promise((settle, fail) => {
      const failure = this.#refusal(request);
      if (failure) {
        fail(failure);
        return;
      }
      const job = { ...request, settle, fail, aborted: false };
      this.#requestsTaken++;
      this.#jobs.set(job.id, job);
      this.#waiting.push(job);
      // Those that come in the same breath share a step.
      queueMicrotask(() => void this.#turn());
    });
  }

  /** Ends the request of this id, if there is one; where the GPU has it already, its result goes. */
  abort(id: string): void {
    const job = this.#jobs.get(id);
    if (!job) return;
    job.aborted = true;
    this.#jobs.delete(id);
    this.#waiting = this.#waiting.filter((other) => other !== job);
    job.fail(new EmbedAborted(`request ${id} was aborted`));
  }

  load(): EmbedderLoad {
    const { runner, maxWaiting } = this.#options;
    return {
      running: this.#running.size,
      waiting: this.#waiting.length,
      maxRunning: this.limits.maxSequences,
      maxWaiting,
      runningTokens: countTokens(this.#running),
      waitingTokens: countTokens(this.#waiting),
      maxTokens: this.limits.maxRows,
      throughput: this.#throughput.perSecond(),
      requestsTaken: this.#requestsTaken,
      tokensRead: this.#tokensRead,
      weightBytes: runner.weightBytes,
      gpuBytes: runner.allocatedBytes,
    };
  }

  /** Fails all there is and frees every buffer. */
  destroy(): void {
    this.#end('the embedder was destroyed');
    this.#options.runner.destroy();
  }

  #refusal({ id, ids, typeIds }: EmbedRequest): EmbedFailure | undefined {
    const { maxWaiting } = this.#options;
    const { contextLength, longest, vocabSize, tokenTypes } = this.limits;
    const wrong = (message: string) => new EmbedFailure('invalid_argument', message);
    if (this.#broken !== undefined) return new EmbedFailure('unavailable', this.#broken);
    if (this.#jobs.has(id)) return wrong(`a request has the id ${id} already`);
    if (ids.length === 0) return wrong('input_ids is empty');
    if (ids.length > contextLength) {
      return wrong(`${ids.length} input ids are over the ${contextLength} that the model takes`);
    }
    // The ids themselves stay out of messages: prompts are private.
    if (!areBelow(ids, vocabSize)) return wrong(`an input id is outside the vocabulary of ${vocabSize}`);
    if (typeIds) {
      if (typeIds.length !== ids.length) {
        return wrong(`token_type_ids has ${typeIds.length} entries for ${ids.length} input ids`);
      }
      if (!areBelow(typeIds, tokenTypes))
        return wrong(`a token_type_ids entry is outside the ${tokenTypes} types there are`);
    }
    if (ids.length > longest) {
      return new EmbedFailure('resource_exhausted', `${ids.length} input ids, and there is memory for ${longest}`);
    }
    if (this.#waiting.length >= maxWaiting) {
      return new EmbedFailure('resource_exhausted', `${maxWaiting} requests wait already`);
    }
    return undefined;
  }

  /** Submits what there is room for. */
  async #turn(): Promise<void> {
    if (this.#turning) return;
    this.#turning = true;
    try {
      const { throttle } = this.#options;
      while (this.#waiting.length > 0 && this.#steps < (throttle?.overlap === false ? 1 : STEPS_IN_FLIGHT)) {
        if (this.#steps === 0) await throttle?.turn();
        const jobs = this.#take();
        if (jobs.length > 0) void this.#step(jobs);
      }
    } finally {
      this.#turning = false;
    }
  }

  /** The next step's requests: those at the head of the queue that fit together. */
  #take(): Job[] {
    const { maxRows, maxSequences } = this.limits;
    let rows = 0;
    let count = 0;
    for (const { ids } of this.#waiting) {
      if (count === maxSequences || (count > 0 && rows + ids.length > maxRows)) break;
      rows += ids.length;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  async #step(jobs: readonly Job[]): Promise<void> {
    const { runner, now, throttle } = this.#options;
    this.#steps++;
    for (const job of jobs) this.#running.add(job);
    const start = now();
    try {
      const results = await withinStepBound(runner.embed(jobs));
      const tokens = countTokens(jobs);
      this.#tokensRead += tokens;
      this.#throughput.add(tokens);
      jobs.forEach((job, i) => {
        this.#settle(job, results[i]!);
      });
    } catch (error) {
      const { message } = error as Error;
      if (error instanceof StepError) for (const job of jobs) this.#fail(job, new EmbedFailure('internal', message));
      else this.#break(message);
    } finally {
      const end = now();
      throttle?.took(end - Math.max(start, this.#lastEnd));
      this.#lastEnd = end;
      for (const job of jobs) this.#running.delete(job);
      this.#steps--;
      void this.#turn();
    }
  }

  #settle(job: Job, values: Float32Array<ArrayBuffer>): void {
    if (!values.every(Number.isFinite)) {
      this.#fail(job, new EmbedFailure('internal', 'the result holds a NaN or an infinity'));
      return;
    }
    if (job.aborted) return;
    this.#jobs.delete(job.id);
    job.settle({ values, tokens: job.ids.length });
  }

  #fail(job: Job, error: Error): void {
    if (job.aborted) return;
    this.#jobs.delete(job.id);
    job.fail(error);
  }

  #break(reason: string): void {
    if (this.#broken !== undefined) return;
    this.#end(reason);
    this.#options.onBroken?.(reason);
  }

  #end(reason: string): void {
    this.#broken ??= reason;
    this.#waiting = [];
    for (const job of [...this.#jobs.values()]) this.#fail(job, new EmbedFailure('unavailable', reason));
  }
}

function countTokens(jobs: Iterable<Job>): number {
  let sum = 0;
  for (const { ids } of jobs) sum += ids.length;
  return sum;
}

function areBelow(values: ArrayLike<number>, bound: number): boolean {
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (!(Number.isSafeInteger(value) && value >= 0 && value < bound)) return false;
  }
  return true;
}
