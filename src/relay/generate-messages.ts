import { create } from '@bufbuild/protobuf';
import {
  GenerateCompleteSchema,
  type GenerateResponse,
  GenerateResponseSchema,
  GenerateStreamChunkSchema,
  type HiddenStates,
  HiddenStatesSchema,
  type InputLogProbs,
  InputLogProbsSchema,
  type OutputLogProbs,
  OutputLogProbsSchema,
  type TopLogProbs,
  TopLogProbsSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { packFloats } from '../contract/packed-floats.ts';
import type { Job, ReadyChunk } from './job.ts';
import type { Sample, TokenDetails, TopOfPosition } from './sample.ts';

/** How a job's messages are written. */
export interface MessageForm {
  /** Long lists of floats go as bytes already encoded, which a message that is written as JSON can't have. */
  readonly packed: boolean;
  /** Number of the last layer, from 0, whose hidden states are told; -1 where the model does not say. */
  readonly lastLayer: number;
}

/** A chunk's message. The job's first has the prompt's logprobs. */
export function chunkOf(job: Job, { sample, from, to }: ReadyChunk, form: MessageForm): GenerateResponse {
  const { request } = job;
  const value = create(GenerateStreamChunkSchema, {
    tokenIds: sample.ids.slice(from, to),
    promptTokens: request.inputIds.length,
    completionTokens: to,
    cachedTokens: sample.cachedTokens ?? 0,
    index: sample.index,
  });
  const inputLogprobs = inputLogprobsOf(job, form);
  if (inputLogprobs) value.inputLogprobs = inputLogprobs;
  if (request.outputLogprobs) value.outputLogprobs = outputLogprobsOf(job, sample, from, to, form);
  if (request.hiddenStates) {
    const states = sample.details.slice(from, to).map((details) => details?.hidden ?? new Float32Array());
    setFloats(value, 6, 'hiddenStates', concat(states), form);
  }
  return create(GenerateResponseSchema, { requestId: request.requestId, response: { case: 'chunk', value } });
}

/** A sample's end, with everything told of it again where one message holds that. */
export function completeOf(job: Job, sample: Sample, form: MessageForm): GenerateResponse {
  const { request } = job;
  const { finish } = sample;
  const count = sample.ids.length;
  const value = create(GenerateCompleteSchema, {
    outputIds: sample.ids,
    finishReason: finish?.reason ?? 'abort',
    promptTokens: request.inputIds.length,
    completionTokens: count,
    cachedTokens: sample.cachedTokens ?? 0,
    index: sample.index,
  });
  if (finish?.matchedTokenId !== undefined)
    value.matchedStop = { case: 'matchedTokenId', value: finish.matchedTokenId };
  if (finish?.matchedStopString !== undefined) {
    value.matchedStop = { case: 'matchedStopStr', value: finish.matchedStopString };
  }
  const inputLogprobs = !request.stream || count === 0 ? inputLogprobsOf(job, form) : undefined;
  if (inputLogprobs) value.inputLogprobs = inputLogprobs;
  if (request.detailsInComplete) {
    if (request.outputLogprobs) value.outputLogprobs = outputLogprobsOf(job, sample, 0, count, form);
    if (request.hiddenStates) value.allHiddenStates = hiddenStatesOf(job, sample, form);
  } else if (request.hiddenStates && count === 0) value.allHiddenStates = hiddenStatesOf(job, sample, form);
  return create(GenerateResponseSchema, { requestId: request.requestId, response: { case: 'complete', value } });
}

function outputLogprobsOf(job: Job, sample: Sample, from: number, to: number, form: MessageForm): OutputLogProbs {
  const { topLogprobs, logprobIds } = job.request;
  const details = sample.details.slice(from, to) as TokenDetails[];
  const value = create(OutputLogProbsSchema, { tokenIds: sample.ids.slice(from, to) });
  const logprobs = Float32Array.from(details, ({ logprob }) => logprob as number);
  setFloats(value, 1, 'tokenLogprobs', logprobs, form);
  if (topLogprobs + logprobIds.length > 0) {
    value.topLogprobs = details.map(({ top, byId }) => topOf(top, byId, logprobIds, form));
  }
  if (logprobIds.length > 0)
    value.tokenIdsLogprobs = details.map(({ byId }) => topOf(undefined, byId, logprobIds, form));
  return value;
}

/** The prompt's logprobs, which go once a request; undefined where they went, or never come. */
function inputLogprobsOf(job: Job, form: MessageForm): InputLogProbs | undefined {
  const positions = job.promptLogprobs?.take();
  if (!positions) return undefined;
  const { topLogprobs, logprobIds, inputIds, logprobStart } = job.request;
  const value = create(InputLogProbsSchema, {
    tokenLogprobs: positions.map(({ logprob }) => (logprob === undefined ? {} : { value: logprob })),
    tokenIds: inputIds.slice(logprobStart),
  });
  if (topLogprobs + logprobIds.length > 0) {
    value.topLogprobs = positions.map(({ top, byId }) => topOf(top, byId, logprobIds, form));
  }
  return value;
}

/** The best logprobs and, after them, those of the ids that were asked for; both are empty where nothing comes before. */
function topOf(
  top: TopOfPosition | undefined,
  byId: Float32Array | undefined,
  logprobIds: readonly number[],
  form: MessageForm,
): TopLogProbs {
  const asked = byId && byId.length > 0 ? logprobIds : [];
  const value = create(TopLogProbsSchema, { tokenIds: [...(top?.ids ?? []), ...asked] });
  const logprobs = concat([top?.logprobs ?? new Float32Array(), byId ?? new Float32Array()]);
  setFloats(value, 1, 'values', logprobs, form);
  return value;
}

/** One for the last prompt position and each output position but the last, which no token was drawn from. */
function hiddenStatesOf(job: Job, sample: Sample, form: MessageForm): HiddenStates[] {
  const { promptState, details } = sample;
  const first = job.request.inputIds.length - 1;
  const states = promptState ? [promptState] : details.map((one) => one?.hidden ?? new Float32Array());
  return states.map((state, at) => {
    const value = create(HiddenStatesSchema, { layer: form.lastLayer, position: first + at });
    setFloats(value, 1, 'values', state, form);
    return value;
  });
}

function concat(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0] as Float32Array;
  const all = new Float32Array(parts.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Sets a `repeated float` field, `field` by name and `no` by number. */
function setFloats<F extends string, M extends { [K in F]: number[] } & Parameters<typeof packFloats>[0]>(
  message: M,
  no: number,
  field: F,
  values: Float32Array,
  { packed }: MessageForm,
): void {
  if (packed) packFloats(message, no, values);
  else message[field] = [...values] as M[F];
}
