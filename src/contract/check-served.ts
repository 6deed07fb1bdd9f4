import { unserved } from './contract-error.ts';
import type { GenerateRequest, MultimodalInputs, SamplingParams } from './gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from './normalised-request.ts';

/** Samples of one request that are served. */
export const MAX_SAMPLES = 128;

/** Entries of one request's logit_bias that are served. */
export const MAX_BIASES = 4096;

/** Ids of one request whose logprobs are told at each position. */
export const MAX_LOGPROB_IDS = 1024;

/** Stop strings of one request that are served, and the length of one in UTF-16 units: each costs work per token. */
export const MAX_STOP_STRINGS = 256;
export const MAX_STOP_LENGTH = 4096;

/**
 * Refuses whatever is set and not served, by name: no field is ignored in silence. Call after the ranges are checked.
 * Throws ContractError (UNIMPLEMENTED).
 */
export function checkServed(request: GenerateRequest, sampling: SamplingParams | undefined, model: ModelLimits): void {
  if (sampling) checkSampling(sampling, model);
  const ids = request.tokenIdsLogprob.length;
  if (ids > MAX_LOGPROB_IDS) {
    throw unserved('token_ids_logprob', `is served with up to ${MAX_LOGPROB_IDS} ids, got ${ids}.`);
  }
  if (request.loraId !== '' && !model.adapterId) {
    throw unserved('lora_id', 'is not served: the relay was started without --lora and --max-loras.');
  }
  if (request.customLogitProcessor !== '') throw unserved('custom_logit_processor');
  if (request.disaggregatedParams) throw unserved('disaggregated_params');
  if (request.requireReasoning) throw unserved('require_reasoning');
  if (request.mmInputs && holdsMedia(request.mmInputs)) throw unserved('mm_inputs');
}

function checkSampling(sampling: SamplingParams, model: ModelLimits): void {
  const biases = Object.keys(sampling.logitBias).length;
  const most = Math.min(MAX_BIASES, model.vocabSize);
  if (biases > most) throw unserved('logit_bias', `is served with up to ${most} entries, got ${biases}.`);
  if (sampling.n > MAX_SAMPLES) throw unserved('n', `is served up to ${MAX_SAMPLES}, got ${sampling.n}.`);
  if (sampling.stop.length > MAX_STOP_STRINGS) {
    throw unserved('stop', `is served with up to ${MAX_STOP_STRINGS} strings, got ${sampling.stop.length}.`);
  }
  if (sampling.stop.some((text) => text.length > MAX_STOP_LENGTH)) {
    throw unserved('stop', `is served with strings of up to ${MAX_STOP_LENGTH} characters.`);
  }
}

/** Whether it holds anything. */
export function holdsMedia(inputs: MultimodalInputs): boolean {
  const { imageUrls, videoUrls, audioUrls, imageData, videoData, audioData, modalities, processedFeatures } = inputs;
  const lists = [imageUrls, videoUrls, audioUrls, imageData, videoData, audioData, modalities];
  return lists.some((list) => list.length > 0) || Object.keys(processedFeatures ?? {}).length > 0;
}
