import { invalid } from './contract-error.ts';
import type { ModelLimits, NormalisedRequest, NormalisedSampling } from './normalised-request.ts';
import { inputBytes, MAX_RESPONSE_BYTES, messageBytes, outputBytes, type ToldPerPosition } from './response-size.ts';

/** What of a request decides on the size of its answer's messages. */
type Asked = Pick<NormalisedRequest, 'inputIds' | 'logprobStart' | 'stream' | 'streamInterval'> &
  Pick<NormalisedRequest, 'outputLogprobs' | 'topLogprobs' | 'logprobIds' | 'hiddenStates'> & {
    readonly sampling: Pick<NormalisedSampling, 'maxNewTokens'>;
  };

/**
 * Bounds every message of the answer before the request is taken: the gateway rejects those over its limit. The input
 * logprobs go once, in one message; a complete can't be split, but a stream's can leave out what its chunks had.
 * Throws ContractError (INVALID_ARGUMENT), naming what asks for the most.
 */
export function boundResponse(
  request: Asked,
  model: ModelLimits,
): Pick<NormalisedRequest, 'detailsInComplete' | 'bytesPerToken' | 'promptBytes'> {
  const { sampling, stream, streamInterval, logprobStart } = request;
  const told: ToldPerPosition = {
    vocabSize: model.vocabSize,
    logprobs: request.outputLogprobs,
    top: request.topLogprobs,
    ids: request.logprobIds.length,
    hidden: request.hiddenStates ? model.hiddenSize : 0,
  };
  const inputs = logprobStart === undefined ? 0 : request.inputIds.length - logprobStart;
  const { maxNewTokens } = sampling;
  // One token with the input logprobs is the least that a message has to hold, streaming or not.
  const least = messageBytes(1, inputs, told);
  if (least > MAX_RESPONSE_BYTES) {
    const alone = messageBytes(1, 0, told) > MAX_RESPONSE_BYTES;
    const list = request.topLogprobs >= request.logprobIds.length ? 'top_logprobs_num' : 'token_ids_logprob';
    const field = request.topLogprobs + request.logprobIds.length > 0 ? list : 'logprob_start_len';
    const where = alone ? 'one output position' : `the prompt from logprob_start_len (${logprobStart}) on`;
    throw invalid(field, `asks for up to ${least} bytes of ${where}, and one message holds ${MAX_RESPONSE_BYTES}.`);
  }
  const chunk = messageBytes(streamInterval, inputs, told);
  if (stream && chunk > MAX_RESPONSE_BYTES) {
    throw invalid(
      'stream_interval',
      `asks for chunks of up to ${chunk} bytes, and one message holds ${MAX_RESPONSE_BYTES}; use a smaller one.`,
    );
  }
  // A streaming complete has the input logprobs only where no chunk went before it.
  const complete = messageBytes(maxNewTokens, stream && maxNewTokens > 0 ? 0 : inputs, told);
  const fits = complete <= MAX_RESPONSE_BYTES;
  if (!fits && !stream) {
    throw invalid(
      largestOf(request),
      `asks for a response of up to ${complete} bytes, and one message holds ${MAX_RESPONSE_BYTES}; use stream=true.`,
    );
  }
  return { detailsInComplete: fits, bytesPerToken: outputBytes(told), promptBytes: inputs * inputBytes(told) };
}

function largestOf({ outputLogprobs, topLogprobs, logprobIds, hiddenStates }: Asked): string {
  if (topLogprobs > 0 && topLogprobs >= logprobIds.length) return 'top_logprobs_num';
  if (logprobIds.length > 0) return 'token_ids_logprob';
  if (hiddenStates) return 'return_hidden_states';
  return outputLogprobs ? 'return_logprob' : 'max_new_tokens';
}
