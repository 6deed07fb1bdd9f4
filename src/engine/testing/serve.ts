import { readTokenBytes, type TokenBytes } from '../../checkpoint/token-bytes.ts';
import type { Runner } from '../../model/runner.ts';
import { Engine } from '../engine.ts';
import type { EngineLimits, StepTimes } from '../engine-options.ts';
import type { EngineEvent, FailedEvent, FinishedEvent, TokensEvent } from '../event.ts';
import type { EngineRequest } from '../request.ts';

/** A vocabulary of one-byte tokens: id i is the letter at i, from 'a' on. */
export function letterTokens(vocabSize: number): TokenBytes {
  const vocab = Object.fromEntries(Array.from({ length: vocabSize }, (_, i) => [String.fromCodePoint(97 + i), i]));
  return readTokenBytes(JSON.stringify({ model: { vocab } }), 'letters');
}

/** What came of one sample. */
export interface SampleResult {
  readonly ids: number[];
  end: FinishedEvent | FailedEvent | undefined;
}

/** An engine whose events are gathered, and checked to come once and in order. */
export class Served {
  readonly engine: Engine;
  readonly #results = new Map<string, SampleResult>();
  readonly #tokens: TokensEvent[] = [];
  #wake: () => void = () => {};

  constructor(runner: Runner, tokens: TokenBytes, limits: EngineLimits, onStep?: (step: StepTimes) => void) {
    let time = 0;
    this.engine = new Engine({
      runner,
      tokens,
      limits,
      now: () => time++,
      onEvents: (events) => this.#take(events),
      ...(onStep ? { onStep } : {}),
    });
  }

  submit(request: EngineRequest): void {
    for (const { index, emittedIds } of request.samples) {
      this.#results.set(`${request.jobId}/${index}`, { ids: [...emittedIds], end: undefined });
    }
    this.engine.submit(request);
  }

  result(jobId: bigint, index = 0): SampleResult {
    const result = this.#results.get(`${jobId}/${index}`);
    if (!result) throw new Error(`no sample ${jobId}/${index} was submitted`);
    return result;
  }

  /** Logprobs of all tokens of a job, in order of coming. */
  tokensOf(jobId: bigint) {
    const events = this.#tokens.filter((event) => event.jobId === jobId);
    return {
      logprobs: events.flatMap((event) => event.logprobs),
      topLogprobs: events.flatMap((event) => event.topLogprobs),
    };
  }

  /** Resolves once `done` holds; it is asked again after each event. */
  async until(done: () => boolean): Promise<void> {
    while (!done()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  allEnded(): boolean {
    return [...this.#results.values()].every((result) => result.end !== undefined);
  }

  #take(events: readonly EngineEvent[]): void {
    for (const event of events) {
      const result = this.result(event.jobId, event.index);
      if (result.end) throw new Error(`${event.type} after the end of ${event.jobId}/${event.index}`);
      if (event.type !== 'tokens') result.end = event;
      else {
        if (event.offset !== result.ids.length)
          throw new Error(`offset ${event.offset} after ${result.ids.length} ids`);
        result.ids.push(...event.ids);
        this.#tokens.push(event);
      }
    }
    this.#wake();
  }
}

/** A request with every default settled. */
export function request(jobId: bigint, inputIds: readonly number[], more: Partial<EngineRequest> = {}): EngineRequest {
  return {
    jobId,
    inputIds,
    samples: [{ index: 0, credit: 1_000_000, emittedIds: [] }],
    sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: jobId },
    maxNewTokens: 8,
    stopTokenIds: [],
    stopStrings: [],
    skipSpecialTokens: true,
    priority: 0,
    outputLogprobs: false,
    topLogprobs: 0,
    ...more,
  };
}
