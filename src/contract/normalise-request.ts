import { Code } from '@connectrpc/connect';
import { boundResponse } from './bound-response.ts';
import { checkRanges } from './check-ranges.ts';
import { checkServed } from './check-served.ts';
import { constraintOf } from './constraint.ts';
import { ContractError, invalid } from './contract-error.ts';
import type { GenerateRequest, SamplingParams } from './gen/sglang_scheduler_pb.ts';
import type { ModelLimits, NormalisedRequest, NormalisedSampling } from './normalised-request.ts';
import { readCustomParams } from './read-custom-params.ts';

/** Below this temperature SGLang takes the best token. */
const GREEDY_BELOW = 1e-6;

/**
 * Checks a request and fills in its defaults, by the contract with the gateway: proto zeros mean "default", except
 * temperature's. Throws ContractError, and nothing else: INVALID_ARGUMENT for mistakes first, then UNIMPLEMENTED for
 * what isn't served, then RESOURCE_EXHAUSTED for a prompt that no KV pool can hold.
 */
export function normaliseRequest(request: GenerateRequest, model: ModelLimits): NormalisedRequest {
  const params = request.samplingParams;
  checkRanges(request, params, model);
  const inputIds = request.tokenized?.inputIds ?? [];
  const sampling = normaliseSampling(params, inputIds.length, model);
  // As SGLang: these three say how return_logprob is meant, and nothing without it.
  const { returnLogprob, logprobStartLen } = request;
  const topLogprobs = returnLogprob ? request.topLogprobsNum : 0;
  const logprobIds = returnLogprob ? request.tokenIdsLogprob : [];
  const asksInput = returnLogprob && logprobStartLen >= 0 && logprobStartLen < inputIds.length;
  const asked = {
    requestId: request.requestId,
    inputIds,
    sampling,
    n: Math.max(1, params?.n ?? 1),
    stream: request.stream,
    streamInterval: Math.min(params?.streamInterval ?? 1, Math.max(1, sampling.maxNewTokens)),
    outputLogprobs: returnLogprob,
    topLogprobs,
    logprobIds,
    logprobStart: asksInput ? logprobStartLen : undefined,
    hiddenStates: request.returnHiddenStates,
    inputEmbeds: request.inputEmbeds.length > 0 ? new Float32Array(request.inputEmbeds) : undefined,
    constraint: params ? constraintOf(params.constraint) : undefined,
    rank: request.dataParallelRank,
  };
  const bounds = boundResponse(asked, model);
  // The types in it are ranges too, but an unknown key beside them is not: both are told here.
  const { seed, priority } = readCustomParams(params?.customParams, model.servesPriority ?? false);
  checkServed(request, params, model);
  if (model.poolTokens !== undefined && inputIds.length > model.poolTokens) {
    throw overPool(inputIds.length, model.poolTokens);
  }
  const loraId = request.loraId === '' ? undefined : model.adapterId?.(request.loraId);
  const lora = loraId === undefined ? {} : { loraId };
  return { ...asked, ...bounds, ...lora, sampling: { ...sampling, seed }, priority };
}

/** A prompt that no node can hold, whoever else runs. */
export function overPool(promptTokens: number, poolTokens: number): ContractError {
  return new ContractError(
    Code.ResourceExhausted,
    `tokenized.input_ids holds ${promptTokens} tokens, and the largest KV pool of the nodes holds ${poolTokens}.`,
    'tokenized.input_ids',
  );
}

/** A prompt that the nodes whose pools could hold it have no context for. */
export function overContext(promptTokens: number, contextLength: number): ContractError {
  return new ContractError(
    Code.ResourceExhausted,
    `tokenized.input_ids holds ${promptTokens} tokens, and the longest context of the nodes that could hold them is ${contextLength}.`,
    'tokenized.input_ids',
  );
}

function normaliseSampling(
  params: SamplingParams | undefined,
  promptTokens: number,
  model: ModelLimits,
): Omit<NormalisedSampling, 'seed'> {
  // Without sampling_params temperature is 1, as SGLang's own default; in them, 0 is a real zero.
  const temperature = params ? params.temperature : 1;
  const room = model.contextLength - promptTokens;
  const asked = params?.maxNewTokens;
  const maxNewTokens = asked === undefined || asked < 0 ? room : Math.min(asked, room);
  const minNewTokens = Math.min(params?.minNewTokens ?? 0, maxNewTokens);
  const topK = params?.topK ?? 0;
  const stopIds = [...new Set([...(params?.stopTokenIds ?? []), ...model.eosTokenIds])];
  if (minNewTokens > 0 && stopIds.length >= model.vocabSize) {
    throw invalid('min_new_tokens', 'leaves no token to be made: stop_token_ids holds the whole vocabulary.');
  }
  return {
    temperature: temperature < GREEDY_BELOW ? 0 : temperature,
    topP: params?.topP || 1,
    topK: topK < 1 || topK >= model.vocabSize ? 0 : topK,
    minP: params?.minP ?? 0,
    maxNewTokens,
    stopTokenIds: params?.ignoreEos ? [] : stopIds,
    stopStrings: params?.stop ?? [],
    skipSpecialTokens: params?.skipSpecialTokens ?? true,
    frequencyPenalty: params?.frequencyPenalty ?? 0,
    presencePenalty: params?.presencePenalty ?? 0,
    repetitionPenalty: params?.repetitionPenalty || 1,
    minNewTokens,
    maskedStopIds: minNewTokens > 0 ? stopIds : [],
    biases: Object.entries(params?.logitBias ?? {}).map(([id, bias]) => ({ id: Number(id), bias })),
    // Two fields change nothing here, whatever they say: spaces_between_special_tokens, which fast tokenizers (all that
    // we read) don't know, and no_stop_trim, since ids are never trimmed.
  };
}
