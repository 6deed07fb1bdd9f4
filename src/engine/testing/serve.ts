import { readTokenBytes, type TokenBytes } from '../../checkpoint/token-bytes.ts';
import type { Runner } from '../../model/runner.ts';
import { Engine } from '../engine.ts';
import type { EngineLimits, EngineOptions } from '../engine-options.ts';
import type {
  EngineEvent,
  FailedEvent,
  FinishedEvent,
  InputLogprobsEvent,
  TokensEvent,
  TopLogprobs,
} from '../event.ts';
import type { EngineRequest, RequestSampling } from '../request.ts';
import { settledWithin } from '../settled-within.ts';

/** A vocabulary of one-byte tokens: id i is the letter at i, from 'a' on. */
export function letterTokens(vocabSize: number): TokenBytes {
  const vocab = Object.fromEntries(Array.from({ length: vocabSize }, (_, i) => [String.fromCodePoint(97 + i), i]));
  return readTokenBytes(JSON.stringify({ model: { vocab } }), 'letters');
}

/** What is told of positions: the prompt's, or the output's from where it was taken over on. */
export interface Told {
  readonly logprobs: (number | undefined)[];
  readonly topLogprobs: TopLogprobs[];
  readonly idLogprobs: Float32Array[];
}

/** What came of one sample. */
export interface SampleResult {
  readonly ids: number[];
  readonly output: Told & { readonly hiddenStates: Float32Array[] };
  /** With the first position that was told. */
  readonly input: Told & { start: number | undefined };
  end: FinishedEvent | FailedEvent | undefined;
}

const nothingTold = () => ({ logprobs: [], topLogprobs: [], idLogprobs: [] });

/** An engine whose events are gathered, and checked to come once and in order. */
export class Served {
  readonly engine: Engine;
  readonly #results = new Map<string, SampleResult>();
  readonly #requests = new Map<bigint, EngineRequest>();
  #wake: () => void = () => {};

  constructor(
    runner: Runner,
    tokens: TokenBytes,
    limits: EngineLimits,
    more: Partial<
      Pick<EngineOptions, 'onStep' | 'grammars' | 'maskPatienceMs' | 'speculation' | 'throttle' | 'now'>
    > = {},
  ) {
    let time = 0;
    const onEvents = (events: readonly EngineEvent[]) => this.#take(events);
    this.engine = new Engine({ runner, tokens, limits, now: () => time++, onEvents, ...more });
  }

  submit(request: EngineRequest): void {
    this.#requests.set(request.jobId, request);
    for (const { index, emittedIds } of request.samples) {
      this.#results.set(`${request.jobId}/${index}`, {
        ids: [...emittedIds],
        output: { ...nothingTold(), hiddenStates: [] },
        input: { ...nothingTold(), start: undefined },
        end: undefined,
      });
    }
    this.engine.submit(request);
  }

  result(jobId: bigint, index = 0): SampleResult {
    const result = this.#results.get(`${jobId}/${index}`);
    if (!result) throw new Error(`no sample ${jobId}/${index} was submitted`);
    return result;
  }

  /** Submits a request of one sample and resolves with what came of it. */
  async serve(request: EngineRequest): Promise<SampleResult> {
    this.submit(request);
    const result = this.result(request.jobId, request.samples[0]!.index);
    await this.until(() => result.end !== undefined);
    return result;
  }

  /** Resolves once `done` holds; it is asked again after each event. Rejects where no event comes for ten seconds. */
  async until(done: () => boolean): Promise<void> {
    while (!done()) {
      const event = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await settledWithin(10_000, event, 'nothing happens any more');
    }
  }

  allEnded(): boolean {
    return [...this.#results.values()].every((result) => result.end !== undefined);
  }

  #take(events: readonly EngineEvent[]): void {
    for (const event of events) {
      const result = this.result(event.jobId, event.index);
      if (result.end) throw new Error(`${event.type} after the end of ${event.jobId}/${event.index}`);
      if (event.type === 'tokens') takeTokens(result, event, this.#requests.get(event.jobId)!);
      else if (event.type === 'input-logprobs') takeInput(result, event, this.#requests.get(event.jobId)!);
      else result.end = event;
    }
    this.#wake();
  }
}

function takeTokens({ ids, output }: SampleResult, event: TokensEvent, request: EngineRequest): void {
  if (event.offset !== ids.length) throw new Error(`offset ${event.offset} after ${ids.length} ids`);
  const { outputLogprobs, topLogprobs, logprobIds, hiddenStates } = request;
  const count = event.ids.length;
  expectCount('logprobs', event.logprobs, outputLogprobs ? count : 0);
  expectCount('top logprobs', event.topLogprobs, outputLogprobs && topLogprobs > 0 ? count : 0);
  expectCount('id logprobs', event.idLogprobs, outputLogprobs && logprobIds.length > 0 ? count : 0);
  expectCount('hidden states', event.hiddenStates, hiddenStates ? count : 0);
  ids.push(...event.ids);
  take(output, event);
  output.hiddenStates.push(...event.hiddenStates);
}

function takeInput({ ids, input }: SampleResult, event: InputLogprobsEvent, request: EngineRequest): void {
  if (ids.length > 0) throw new Error('input logprobs after a token');
  input.start ??= event.position;
  const expected = input.start + input.logprobs.length;
  if (event.position !== expected) throw new Error(`position ${event.position} is told where ${expected} is next`);
  const count = event.logprobs.length;
  if (count === 0) throw new Error('input logprobs of no position');
  expectCount('top logprobs', event.topLogprobs, request.topLogprobs > 0 ? count : 0);
  expectCount('id logprobs', event.idLogprobs, request.logprobIds.length > 0 ? count : 0);
  take(input, event);
}

function take(told: Told, { logprobs, topLogprobs, idLogprobs }: InputLogprobsEvent | TokensEvent): void {
  told.logprobs.push(...logprobs);
  told.topLogprobs.push(...topLogprobs);
  told.idLogprobs.push(...idLogprobs);
}

function expectCount(what: string, values: readonly unknown[], count: number): void {
  if (values.length !== count) throw new Error(`${values.length} ${what} where ${count} were asked for`);
}

/** Greedy, and nothing else, unless `more` says otherwise. */
export function sampling(more: Partial<RequestSampling> = {}): RequestSampling {
  return {
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
    ...more,
  };
}

/** A request with every default settled. */
export function request(jobId: bigint, inputIds: readonly number[], more: Partial<EngineRequest> = {}): EngineRequest {
  return {
    jobId,
    inputIds,
    samples: [{ index: 0, credit: 1_000_000, emittedIds: [] }],
    sampling: sampling({ seed: jobId }),
    maxNewTokens: 8,
    stopTokenIds: [],
    stopStrings: [],
    skipSpecialTokens: true,
    priority: 0,
    outputLogprobs: false,
    topLogprobs: 0,
    logprobIds: [],
    logprobStart: undefined,
    hiddenStates: false,
    constraint: undefined,
    ...more,
  };
}
