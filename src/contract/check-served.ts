import { unserved } from './contract-error.ts';
import type { GenerateRequest, MultimodalInputs, SamplingParams } from './gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from './normalised-request.ts';

/** Best logprobs of one position that are served, where the vocabulary is larger. */
export const MAX_TOP_LOGPROBS = 1024;

/** Samples of one request that are served. */
export const MAX_SAMPLES = 128;

/** Stop strings of one request that are served, and the length of one in UTF-16 units: each costs work per token. */
export const MAX_STOP_STRINGS = 256;
export const MAX_STOP_LENGTH = 4096;

/**
 * Refuses whatever is set and not served, by name: no field is ignored in silence. Call after the ranges are checked.
 * Throws ContractError (UNIMPLEMENTED).
 */
export function checkServed(request: GenerateRequest, sampling: SamplingParams | undefined, model: ModelLimits): void {
  if (sampling) checkSampling(sampling);
  const { returnLogprob, logprobStartLen, topLogprobsNum } = request;
  const prompt = request.tokenized?.inputIds.length ?? 0;
  // The proto's default, 0, asks for the whole prompt's logprobs; -1 or past the prompt asks for none.
  if (returnLogprob && logprobStartLen !== -1 && logprobStartLen < prompt) {
    throw unserved(
      'logprob_start_len',
      `${logprobStartLen} asks for logprobs of the prompt, which are not served; -1 asks for those of the output only.`,
    );
  }
  const top = Math.min(MAX_TOP_LOGPROBS, model.vocabSize);
  if (topLogprobsNum > top) throw unserved('top_logprobs_num', `is served up to ${top}, got ${topLogprobsNum}.`);
  if (request.tokenIdsLogprob.length > 0) throw unserved('token_ids_logprob');
  if (request.returnHiddenStates) throw unserved('return_hidden_states');
  if (request.inputEmbeds.length > 0) throw unserved('input_embeds');
  if (request.loraId !== '') throw unserved('lora_id');
  if (request.customLogitProcessor !== '') throw unserved('custom_logit_processor');
  if (request.disaggregatedParams) throw unserved('disaggregated_params');
  if (request.requireReasoning) throw unserved('require_reasoning');
  if (request.mmInputs && holdsMedia(request.mmInputs)) throw unserved('mm_inputs');
}

function checkSampling(sampling: SamplingParams): void {
  if (sampling.frequencyPenalty !== 0) throw unserved('frequency_penalty');
  if (sampling.presencePenalty !== 0) throw unserved('presence_penalty');
  if (sampling.repetitionPenalty !== 0 && sampling.repetitionPenalty !== 1) throw unserved('repetition_penalty');
  if (sampling.minNewTokens > 0) throw unserved('min_new_tokens');
  if (Object.keys(sampling.logitBias).length > 0) throw unserved('logit_bias');
  if ((sampling.streamInterval ?? 1) !== 1) throw unserved('stream_interval', 'is served as 1 only.');
  if (sampling.n > MAX_SAMPLES) throw unserved('n', `is served up to ${MAX_SAMPLES}, got ${sampling.n}.`);
  if (sampling.stop.length > MAX_STOP_STRINGS) {
    throw unserved('stop', `is served with up to ${MAX_STOP_STRINGS} strings, got ${sampling.stop.length}.`);
  }
  if (sampling.stop.some((text) => text.length > MAX_STOP_LENGTH)) {
    throw unserved('stop', `is served with strings of up to ${MAX_STOP_LENGTH} characters.`);
  }
  const { constraint } = sampling;
  // An empty constraint constrains nothing; SGLang reads it as none.
  if (constraint.case !== undefined && constraint.value !== '') throw unserved(protoNameOf[constraint.case]);
}

const protoNameOf = {
  regex: 'regex',
  jsonSchema: 'json_schema',
  ebnfGrammar: 'ebnf_grammar',
  structuralTag: 'structural_tag',
} as const;

function holdsMedia(inputs: MultimodalInputs): boolean {
  const { imageUrls, videoUrls, audioUrls, imageData, videoData, audioData, modalities, processedFeatures } = inputs;
  const lists = [imageUrls, videoUrls, audioUrls, imageData, videoData, audioData, modalities];
  return lists.some((list) => list.length > 0) || Object.keys(processedFeatures ?? {}).length > 0;
}
