import { Code } from '@connectrpc/connect';
import type {
  GenerateComplete,
  GenerateResponse,
  GenerateStreamChunk,
  HiddenStates,
  InputLogProbs,
  OutputLogProbs,
  TopLogProbs,
} from '../gen/sglang_scheduler_pb.ts';
import type { ModelLimits, NormalisedRequest } from '../normalised-request.ts';
import { MAX_RESPONSE_BYTES } from '../response-size.ts';
import { httpStatusOf } from '../status-table.ts';
import { isLogprob, near, same, sameLists, that } from './holds.ts';

/** What came of one sample so far. */
interface SampleState {
  readonly ids: number[];
  readonly logprobs: number[];
  readonly tops: TopLogProbs[];
  readonly byIds: TopLogProbs[];
  readonly hidden: number[];
  /** A chunk smaller than the interval: the last. */
  rest: boolean;
  cached: number | undefined;
  complete: boolean;
}

/**
 * Checks an answer to a request that was taken, message by message: counts, order, sizes, once-only, and that what is
 * told twice is the same. Throws an Error that says what is wrong.
 */
export class AnswerChecker {
  readonly samples: readonly SampleState[];
  private readonly request: NormalisedRequest;
  private readonly model: ModelLimits;
  private messages = 0;
  private completes = 0;
  private inputTold = false;
  private error: string | undefined;
  /** Somebody aborted it. */
  aborted = false;

  constructor(request: NormalisedRequest, model: ModelLimits) {
    this.request = request;
    this.model = model;
    this.samples = Array.from({ length: request.n }, () => ({
      ids: [],
      logprobs: [],
      tops: [],
      byIds: [],
      hidden: [],
      rest: false,
      cached: undefined,
      complete: false,
    }));
  }

  /** `bytes`: the message's length on the wire. */
  take({ requestId, response }: GenerateResponse, bytes: number): void {
    that(bytes <= MAX_RESPONSE_BYTES, `a message of ${bytes} bytes`);
    that(this.error === undefined, 'a message after `error`');
    that(requestId === this.request.requestId, 'a message of another request');
    if (response.case === 'chunk') this.chunk(response.value);
    else if (response.case === 'complete') this.complete(response.value);
    else if (response.case === 'error') {
      that(this.messages > 0, '`error` before any other message');
      this.error = response.value.httpStatusCode;
    } else throw new Error('a message without content');
    this.messages++;
  }

  /** The stream ended: with OK, or with a status. */
  end(code: Code | undefined): void {
    if (code === undefined) {
      that(this.error === undefined, 'OK after `error`');
      that(this.completes === this.request.n, `OK after ${this.completes} completes of ${this.request.n}`);
      return;
    }
    that(this.messages > 0 === (this.error !== undefined), `status ${Code[code]} without \`error\` before it`);
    if (this.error !== undefined) that(this.error === String(httpStatusOf(code)), `\`error\` ${this.error}`);
  }

  private sample(index: number): SampleState {
    const sample = this.samples[index];
    if (!sample) throw new Error(`sample ${index} of ${this.request.n}`);
    that(!sample.complete, `a message of sample ${index} after its complete`);
    return sample;
  }

  private chunk(chunk: GenerateStreamChunk): void {
    const { request } = this;
    that(request.stream, 'a chunk where there is no stream');
    const sample = this.sample(chunk.index);
    const count = chunk.tokenIds.length;
    that(count > 0, 'an empty chunk');
    that(!sample.rest, 'a chunk after one smaller than the interval');
    that(count <= request.streamInterval, `a chunk of ${count}, where the interval is ${request.streamInterval}`);
    sample.rest = count < request.streamInterval;
    this.tokens(sample, chunk.tokenIds);
    that(chunk.completionTokens === sample.ids.length, 'completion_tokens is not the count so far');
    this.counts(sample, chunk);
    this.output(sample, chunk.outputLogprobs, chunk.tokenIds);
    const hidden = request.hiddenStates ? count * this.model.hiddenSize : 0;
    that(chunk.hiddenStates.length === hidden, `${chunk.hiddenStates.length} values of hidden states, not ${hidden}`);
    that(chunk.hiddenStates.every(Number.isFinite), 'a hidden state that is no number');
    sample.hidden.push(...chunk.hiddenStates);
    this.input(chunk.inputLogprobs, this.messages === 0);
  }

  private complete(complete: GenerateComplete): void {
    const { request } = this;
    const sample = this.sample(complete.index);
    that(complete.index === this.completes, `complete ${complete.index} after ${this.completes} of them`);
    if (request.stream) that(same(complete.outputIds, sample.ids), 'output_ids are not those of the chunks');
    else this.tokens(sample, complete.outputIds);
    const count = complete.outputIds.length;
    that(complete.completionTokens === count, 'completion_tokens is not the count');
    this.counts(sample, complete);
    this.finish(complete);
    const { outputLogprobs } = complete;
    if (!request.outputLogprobs || !request.detailsInComplete) that(!outputLogprobs, 'logprobs in complete');
    else if (request.stream) this.repeated(sample, outputLogprobs);
    else this.output(sample, outputLogprobs, complete.outputIds);
    this.hidden(sample, complete.allHiddenStates, count);
    this.input(complete.inputLogprobs, request.stream ? count === 0 : this.completes === 0);
    sample.complete = true;
    this.completes++;
  }

  private tokens(sample: SampleState, ids: readonly number[]): void {
    const { sampling } = this.request;
    for (const id of ids) {
      const last = sample.ids.at(-1);
      that(last === undefined || !sampling.stopTokenIds.includes(last), 'a token after a stop token');
      that(id < this.model.vocabSize, 'a token outside the vocabulary');
      const early = sample.ids.length < sampling.minNewTokens;
      that(!early || !sampling.maskedStopIds.includes(id), 'a stop token before the minimum');
      sample.ids.push(id);
    }
    that(sample.ids.length <= sampling.maxNewTokens, `${sample.ids.length} tokens of ${sampling.maxNewTokens}`);
  }

  private counts(sample: SampleState, told: GenerateStreamChunk | GenerateComplete): void {
    const prompt = this.request.inputIds.length;
    that(told.promptTokens === prompt, `prompt_tokens ${told.promptTokens}, and there are ${prompt}`);
    that(told.cachedTokens >= 0 && told.cachedTokens < prompt, `cached_tokens ${told.cachedTokens} of ${prompt}`);
    that((sample.cached ?? told.cachedTokens) === told.cachedTokens, 'another cached_tokens than before');
    sample.cached = told.cachedTokens;
    that(told.reasoningTokens === 0, 'reasoning tokens');
  }

  private finish({ finishReason, matchedStop, outputIds }: GenerateComplete): void {
    const { sampling, constraint } = this.request;
    const whole = outputIds.length === sampling.maxNewTokens;
    if (finishReason === 'abort') {
      that(this.aborted, 'an abort that nobody asked for');
    } else that(whole === (finishReason === 'length'), `"${finishReason}" at ${outputIds.length}`);
    if (finishReason !== 'stop') {
      that(matchedStop.case === undefined, `a matched stop with "${finishReason}"`);
      return;
    }
    if (matchedStop.case === 'matchedTokenId') {
      const stops = sampling.stopTokenIds.includes(matchedStop.value) || constraint !== undefined;
      that(stops && outputIds.at(-1) === matchedStop.value, 'a stop at another token');
    } else if (matchedStop.case === 'matchedStopStr') {
      that(sampling.stopStrings.includes(matchedStop.value), 'a stop at another text');
    } else that(constraint !== undefined && outputIds.length === 0, 'a stop at nothing');
  }

  private output(sample: SampleState, told: OutputLogProbs | undefined, ids: readonly number[]): void {
    if (!this.request.outputLogprobs) {
      that(told === undefined, 'logprobs that nobody asked for');
      return;
    }
    if (!told) throw new Error('no logprobs');
    that(same(told.tokenIds, ids), 'logprobs of other tokens');
    this.lists(ids, told.tokenLogprobs, told.topLogprobs, 0);
    const asked = this.request.logprobIds;
    that(told.tokenIdsLogprobs.length === (asked.length > 0 ? ids.length : 0), 'another number of id logprobs');
    for (const [at, list] of told.tokenIdsLogprobs.entries()) {
      that(same(list.tokenIds, asked), 'logprobs of other ids');
      // They are told a second time after the best.
      const again = told.topLogprobs[at]?.values.slice(-asked.length) ?? [];
      that(same(list.values, again), 'id logprobs that are not those after the best');
    }
    sample.logprobs.push(...told.tokenLogprobs);
    sample.tops.push(...told.topLogprobs);
    sample.byIds.push(...told.tokenIdsLogprobs);
  }

  /** Logprobs of consecutive positions, whose first `empty` have none. */
  private lists(
    ids: readonly number[],
    logprobs: readonly number[],
    tops: readonly TopLogProbs[],
    empty: number,
  ): void {
    const { topLogprobs: best, logprobIds } = this.request;
    that(logprobs.length + empty === ids.length, `${logprobs.length} logprobs of ${ids.length} positions`);
    that(logprobs.every(isLogprob), 'a logprob that is none');
    that(tops.length === (best + logprobIds.length > 0 ? ids.length : 0), 'another number of top logprobs');
    for (const [at, top] of tops.entries()) {
      const entries = at < empty ? 0 : best + logprobIds.length;
      that(top.values.length === entries && top.tokenIds.length === entries, `${top.values.length} top logprobs`);
      if (at >= empty) this.top(top, ids[at] as number, logprobs[at - empty] as number);
    }
  }

  private top({ values, tokenIds }: TopLogProbs, id: number, logprob: number): void {
    const { topLogprobs: best, logprobIds } = this.request;
    that(values.every(isLogprob), 'a top logprob that is none');
    const [bestValues, bestIds] = [values.slice(0, best), tokenIds.slice(0, best)];
    that(new Set(bestIds).size === best, 'a top token twice');
    that(
      bestIds.every((one) => one >= 0 && one < this.model.vocabSize),
      'a top token outside the vocabulary',
    );
    that(
      bestValues.every((value, at) => at === 0 || value <= (bestValues[at - 1] as number)),
      'top logprobs that are not best first',
    );
    that(same(tokenIds.slice(best), logprobIds), 'other ids after the best');
    const [first = logprob] = bestValues;
    that(logprob <= first || near(logprob, first), 'a token better than the best');
    for (const [at, one] of tokenIds.entries()) {
      if (one === id) that(near(values[at] as number, logprob), 'two logprobs of one token');
    }
  }

  private repeated(sample: SampleState, told: OutputLogProbs | undefined): void {
    if (!told) throw new Error('no logprobs in complete');
    that(same(told.tokenIds, sample.ids), 'logprobs of other tokens in complete');
    that(same(told.tokenLogprobs, sample.logprobs), 'other logprobs in complete');
    that(sameLists(told.topLogprobs, sample.tops), 'other top logprobs in complete');
    that(sameLists(told.tokenIdsLogprobs, sample.byIds), 'other id logprobs in complete');
  }

  private hidden(sample: SampleState, states: readonly HiddenStates[], count: number): void {
    const { hiddenStates, detailsInComplete, stream, inputIds } = this.request;
    // An abort before the first token may have come before the prompt was computed.
    const none = count === 0 && this.aborted && states.length === 0;
    const expected = hiddenStates && (detailsInComplete || count === 0) && !none ? Math.max(1, count) : 0;
    that(states.length === expected, `${states.length} hidden states, not ${expected}`);
    for (const [at, { position, values, layer }] of states.entries()) {
      that(position === inputIds.length - 1 + at, `a hidden state of position ${position}`);
      that(values.length === this.model.hiddenSize && values.every(Number.isFinite), 'a hidden state that is none');
      that(layer === (states[0] as HiddenStates).layer, 'hidden states of several layers');
    }
    if (stream && count > 0 && expected > 0) {
      that(
        same(
          states.flatMap(({ values }) => values),
          sample.hidden,
        ),
        'other hidden states in complete',
      );
    }
  }

  private input(told: InputLogProbs | undefined, due: boolean): void {
    const { logprobStart, inputIds } = this.request;
    if (!told) {
      that(logprobStart === undefined || !due || this.inputTold || this.aborted, 'no logprobs of the prompt');
      return;
    }
    if (logprobStart === undefined) throw new Error('logprobs of the prompt that nobody asked for');
    that(due && !this.inputTold, 'logprobs of the prompt out of place, or again');
    this.inputTold = true;
    const ids = inputIds.slice(logprobStart);
    that(same(told.tokenIds, ids), 'logprobs of another prompt');
    that(told.tokenLogprobs.length === ids.length, 'another number of logprobs of the prompt');
    const empty = logprobStart === 0 ? 1 : 0;
    const values = told.tokenLogprobs.map(({ value }) => value);
    that(empty === 0 || values[0] === undefined, 'a logprob of the first token');
    this.lists(ids, values.slice(empty) as number[], told.topLogprobs, empty);
  }
}
