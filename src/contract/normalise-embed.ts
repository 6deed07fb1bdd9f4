import { MAX_REQUEST_ID } from './check-ranges.ts';
import { holdsMedia } from './check-served.ts';
import { invalid, unserved } from './contract-error.ts';
import type { EmbedRequest } from './gen/sglang_scheduler_pb.ts';
import type { EmbedInput, ModelLimits, NormalisedRequest } from './normalised-request.ts';
import { MAX_RESPONSE_BYTES } from './response-size.ts';

/** Texts of one request that are served; a pair counts as one. */
const MAX_TEXTS = 128;
/** UTF-16 units of all texts of a request. */
const MAX_TEXTS_LENGTH = 65_536;
/** UTF-16 units of one text, or pair: of the worst tokenizers' worst text some 200 ms, and others' texts wait meanwhile. */
const MAX_TEXT_LENGTH = 8_192;

/** What a vector of so many numbers takes in a message. */
function vectorBytes(size: number): number {
  return 4 * size + 32;
}

/** What the contract needs to know of a model that makes vectors or classifies. */
export interface EmbedLimits extends Pick<ModelLimits, 'vocabSize' | 'contextLength' | 'poolTokens' | 'ranks'> {
  /** Numbers of a vector, or classes. */
  readonly size: number;
  /** Whether it scores pairs of texts, or other classes. */
  readonly classifies: boolean;
  /** Token types that it knows: token_type_ids are below. */
  readonly tokenTypes: number;
  /** What the model's tokenizer fills texts up with, and on which side; undefined: it doesn't. */
  readonly padding?: Padding | undefined;
}

export interface Padding {
  readonly id: number;
  readonly side: 'left' | 'right';
}

/** The ids of a text, as the model's tokenizer makes them, special tokens included; of two looked at together with a `pair`. */
export type EncodeTexts = (text: string, pair: string | undefined) => Promise<EmbedInput>;

/**
 * Checks a request for vectors, by the contract with the gateway; what it asks of a tokenizer is left to `embedInputs`.
 * Throws ContractError, and nothing else: INVALID_ARGUMENT for mistakes first, then UNIMPLEMENTED for what isn't served.
 */
export function checkEmbed(request: EmbedRequest, model: EmbedLimits): void {
  const { requestId, dataParallelRank: rank, tokenized, texts, isCrossEncoder } = request;
  if (requestId.length > MAX_REQUEST_ID) {
    throw invalid('request_id', `must be at most ${MAX_REQUEST_ID} characters, got ${requestId.length}.`);
  }
  if (rank !== undefined && rank < 0) throw invalid('data_parallel_rank', `must be >= 0, got ${rank}.`);
  if (rank !== undefined && model.ranks !== undefined && rank >= model.ranks) {
    throw invalid('data_parallel_rank', `must be in [0, ${model.ranks}), got ${rank}.`);
  }
  if (isCrossEncoder && !model.classifies) {
    throw invalid('is_cross_encoder', 'must be false: the model makes embeddings, and scores no pairs.');
  }
  if (texts.length > 0) checkTexts(request, model);
  else if (!tokenized) throw invalid('tokenized', 'must be set.');
  if (tokenized && (texts.length === 0 || tokenized.inputIds.length > 0)) checkTokenized(request, model);
  if (request.mmInputs && holdsMedia(request.mmInputs)) throw unserved('mm_inputs');
}

function checkTokenized({ tokenized, tokenTypeIds }: EmbedRequest, model: EmbedLimits): void {
  const ids = tokenized?.inputIds ?? [];
  if (ids.length === 0) throw invalid('tokenized.input_ids', 'must not be empty.');
  checkLength('tokenized.input_ids', ids.length, model);
  if (ids.some((id) => id >= model.vocabSize)) {
    throw invalid('tokenized.input_ids', `must hold ids in [0, ${model.vocabSize}).`);
  }
  if (tokenTypeIds.length === 0) return;
  if (tokenTypeIds.length !== ids.length) {
    throw invalid('token_type_ids', `must be as many as input_ids (${ids.length}), got ${tokenTypeIds.length}.`);
  }
  if (tokenTypeIds.some((id) => id < 0 || id >= model.tokenTypes)) {
    throw invalid('token_type_ids', `must hold types in [0, ${model.tokenTypes}).`);
  }
}

function checkLength(field: string, tokens: number, { contextLength, poolTokens = contextLength }: EmbedLimits): void {
  const most = Math.min(contextLength, poolTokens);
  if (tokens > most) throw invalid(field, `must fit the context of ${most} tokens, got ${tokens} of them.`);
}

function checkTexts({ texts, tokenized, tokenTypeIds, isCrossEncoder }: EmbedRequest, model: EmbedLimits): void {
  if ((tokenized?.inputIds.length ?? 0) > 0) throw invalid('texts', 'must be empty where tokenized.input_ids is set.');
  if (tokenTypeIds.length > 0) throw invalid('token_type_ids', 'must be empty where texts are given.');
  if (isCrossEncoder && texts.length % 2 > 0) {
    throw invalid('texts', `must be pairs with is_cross_encoder, got ${texts.length} texts.`);
  }
  const count = isCrossEncoder ? texts.length / 2 : texts.length;
  const most = Math.min(MAX_TEXTS, Math.floor(MAX_RESPONSE_BYTES / vectorBytes(model.size)) - 2);
  if (count > most) throw invalid('texts', `must be at most ${most}, pairs counted once, got ${count}.`);
  const step = isCrossEncoder ? 2 : 1;
  const lengthOf = (some: readonly string[]) => some.reduce((sum, text) => sum + text.length, 0);
  if (lengthOf(texts) > MAX_TEXTS_LENGTH)
    throw invalid('texts', `must hold at most ${MAX_TEXTS_LENGTH} characters in all.`);
  for (let at = 0; at < texts.length; at += step) {
    if (lengthOf(texts.slice(at, at + step)) > MAX_TEXT_LENGTH) {
      throw invalid(
        'texts',
        `must be of at most ${MAX_TEXT_LENGTH} characters each: longer ones go as tokenized.input_ids.`,
      );
    }
  }
}

/** What a checked request asks vectors of. Rejects with ContractError for a text of too many tokens, or of none. */
export async function embedInputs(
  request: EmbedRequest,
  model: EmbedLimits,
  encode: EncodeTexts,
): Promise<readonly EmbedInput[]> {
  const { texts, tokenized, tokenTypeIds, isCrossEncoder } = request;
  if (texts.length === 0) {
    const typeIds = tokenTypeIds.length > 0 ? tokenTypeIds : undefined;
    return [unpadded({ ids: tokenized?.inputIds ?? [], typeIds }, model.padding)];
  }
  const step = isCrossEncoder ? 2 : 1;
  const inputs: EmbedInput[] = [];
  for (let at = 0; at < texts.length; at += step) {
    const input = await encode(texts[at] as string, isCrossEncoder ? texts[at + 1] : undefined);
    if (input.ids.length === 0) throw invalid('texts', 'must hold no text without a token.');
    checkLength('texts', input.ids.length, model);
    inputs.push(input);
  }
  return inputs;
}

/**
 * Without what a tokenizer filled it up with: gateways send that as they get it, and no mask with it. At least one id is left.
 */
function unpadded(input: EmbedInput, padding: Padding | undefined): EmbedInput {
  if (!padding) return input;
  const { ids, typeIds } = input;
  let from = 0;
  let to = ids.length;
  if (padding.side === 'right') while (to > 1 && ids[to - 1] === padding.id) to--;
  else while (from < to - 1 && ids[from] === padding.id) from++;
  return { ids: ids.slice(from, to), typeIds: typeIds?.slice(from, to) };
}

/** The request as jobs have it: each input is a sample that makes no token. */
export function embedJobRequest(
  request: EmbedRequest,
  inputs: readonly EmbedInput[],
  { size }: Pick<EmbedLimits, 'size'>,
): NormalisedRequest {
  return {
    requestId: request.requestId,
    inputIds: inputs.flatMap(({ ids }) => ids),
    embedInputs: inputs,
    n: inputs.length,
    rank: request.dataParallelRank,
    sampling: NO_SAMPLING,
    stream: false,
    streamInterval: 1,
    outputLogprobs: false,
    topLogprobs: 0,
    logprobIds: [],
    logprobStart: undefined,
    hiddenStates: false,
    detailsInComplete: true,
    bytesPerToken: 1,
    // All vectors wait for the last one.
    promptBytes: inputs.length * vectorBytes(size),
    inputEmbeds: undefined,
    constraint: undefined,
    priority: 0,
  };
}

/** As SGLang: sampling_params are there for compatibility, and say nothing of a vector. */
const NO_SAMPLING: NormalisedRequest['sampling'] = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  seed: 0n,
  maxNewTokens: 0,
  stopTokenIds: [],
  stopStrings: [],
  skipSpecialTokens: true,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  minNewTokens: 0,
  maskedStopIds: [],
  biases: [],
};
