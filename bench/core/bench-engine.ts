import type { TokenBytes } from '../../src/checkpoint/token-bytes.ts';
import { Engine } from '../../src/engine/engine.ts';
import { ENGINE_DEFAULTS } from '../../src/engine/engine-defaults.ts';
import type { EngineLimits, EngineOptions, StepTimes } from '../../src/engine/engine-options.ts';
import type { EngineEvent } from '../../src/engine/event.ts';
import type { Grammars } from '../../src/engine/grammars.ts';
import type { Constraint, EngineRequest, RequestSampling } from '../../src/engine/request.ts';
import { deferred } from '../../src/gpu/deferred.ts';
import type { Runner } from '../../src/model/runner.ts';

/** A page's, with room for a whole trace to wait. */
const LIMITS: EngineLimits = { ...ENGINE_DEFAULTS, maxRunning: 64, maxWaiting: 4_096 };

export interface Job {
  readonly submittedAt: number;
  /** When each token came. */
  readonly times: number[];
  cachedTokens: number;
  /** Resolves at its end; rejects where it failed. */
  readonly ended: Promise<void>;
  /** Resolves with its first token. */
  readonly began: Promise<void>;
}

interface Watched extends Job {
  readonly begin: () => void;
  readonly end: () => void;
  readonly fail: (error: Error) => void;
}

/** The engine as a page has it, with every step and every token timed. */
export class BenchEngine {
  readonly engine: Engine;
  readonly steps: StepTimes[] = [];
  readonly #jobs = new Map<bigint, Watched>();
  #jobIds = 0n;
  #inFlight = 0;
  #wake: () => void = () => {};

  constructor(
    runner: Runner,
    tokens: TokenBytes,
    limits: Partial<EngineLimits> = {},
    grammars?: Grammars,
    speculation: EngineOptions['speculation'] = 'off',
  ) {
    this.engine = new Engine({
      runner: this.#counted(runner),
      tokens,
      ...(grammars ? { grammars } : {}),
      speculation,
      limits: { ...LIMITS, ...limits },
      now: () => performance.now(),
      onEvents: (events) => this.#take(events),
      onStep: (step) => {
        this.steps.push(step);
        this.#wake();
      },
    });
  }

  /** A request that nothing but its length, or its constraint, ends; greedy unless `sampling` says otherwise, with all the credit it
   * may want unless `credit` says how much. Events come once the caller awaits. */
  submit(
    inputIds: readonly number[],
    maxNewTokens: number,
    constraint?: Constraint,
    loraId?: string,
    { sampling = {}, credit }: { readonly sampling?: Partial<RequestSampling>; readonly credit?: number } = {},
  ): { readonly jobId: bigint; readonly job: Job } {
    const jobId = this.#jobIds++;
    const [begun, ended] = [deferred(), deferred()];
    const job: Watched = {
      submittedAt: performance.now(),
      times: [],
      cachedTokens: 0,
      began: begun.promise,
      ended: ended.promise,
      begin: begun.resolve,
      end: ended.resolve,
      fail: (error) => {
        begun.reject(error);
        ended.reject(error);
      },
    };
    for (const promise of [job.began, job.ended]) promise.catch(() => {});
    this.#jobs.set(jobId, job);
    const asked = greedy(jobId, inputIds, maxNewTokens, constraint);
    const samples = credit === undefined ? asked.samples : asked.samples.map((sample) => ({ ...sample, credit }));
    const drawn = { ...asked, samples, sampling: { ...asked.sampling, ...sampling } };
    this.engine.submit(loraId === undefined ? drawn : { ...drawn, loraId });
    return { jobId, job };
  }

  /** Resolves once `done` holds; it is asked again after each step. */
  async until(done: () => boolean): Promise<void> {
    while (!done()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The GPU has nothing to do. */
  quiet(): Promise<void> {
    return this.until(() => this.#inFlight === 0);
  }

  /** Ends what runs, and waits until the GPU is done with it. */
  async stop(): Promise<void> {
    for (const jobId of [...this.#jobs.keys()]) this.engine.abort(jobId);
    await this.quiet();
  }

  /** `runner`, its steps in flight counted. */
  #counted(runner: Runner): Runner {
    const { limits, weightBytes, kvBytes, allocatedBytes } = runner;
    const settled = () => {
      this.#inFlight--;
      this.#wake();
    };
    return {
      limits,
      weightBytes,
      kvBytes,
      allocatedBytes,
      step: (batch) => {
        const rows = runner.step(batch);
        this.#inFlight++;
        rows.then(settled, settled);
        return rows;
      },
      drawMasked: (masks) => runner.drawMasked(masks),
      ...(runner.loadAdapter ? { loadAdapter: (slot, files) => runner.loadAdapter!(slot, files) } : {}),
      destroy: () => runner.destroy(),
    };
  }

  #take(events: readonly EngineEvent[]): void {
    const now = performance.now();
    for (const event of events) {
      const job = this.#jobs.get(event.jobId)!;
      if (event.type === 'failed') job.fail(new Error(`${event.code}: ${event.message}`));
      else if (event.type === 'finished') {
        job.end();
        this.#jobs.delete(event.jobId);
      } else if (event.type === 'tokens') {
        for (const _ of event.ids) job.times.push(now);
        job.cachedTokens = event.cachedTokens;
        job.begin();
      }
    }
  }
}

export function greedy(
  jobId: bigint,
  inputIds: readonly number[],
  maxNewTokens: number,
  constraint: Constraint | undefined,
): EngineRequest {
  return {
    jobId,
    inputIds,
    samples: [{ index: 0, credit: Number.MAX_SAFE_INTEGER, emittedIds: [] }],
    sampling: {
      temperature: 0,
      topK: 0,
      topP: 1,
      minP: 0,
      seed: 0n,
      frequencyPenalty: 0,
      presencePenalty: 0,
      repetitionPenalty: 1,
      minNewTokens: 0,
      maskedStopIds: [],
      biases: [],
    },
    maxNewTokens,
    stopTokenIds: [],
    stopStrings: [],
    skipSpecialTokens: true,
    priority: 0,
    outputLogprobs: false,
    topLogprobs: 0,
    logprobIds: [],
    logprobStart: undefined,
    hiddenStates: false,
    constraint,
  };
}
