import type {
  GenerateComplete,
  GenerateRequest,
  GenerateStreamChunk,
  HiddenStates,
  InputLogProbs,
  OutputLogProbs,
  TopLogProbs,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { showFloat } from '../contract/show-float.ts';

/** What `shoal generate --json` prints; docs/generate.md tells it. The first sample's fields stand at the top. */
export interface GenerateResult extends SampleResult {
  readonly request_id: string;
  readonly prompt_ids: number[];
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly input_logprobs?: TokenLogprob[];
  /** Where n > 1: every sample, by index. */
  readonly samples?: SampleResult[];
}

export interface SampleResult {
  readonly index: number;
  readonly output_ids: number[];
  readonly text: string;
  readonly finish_reason: string;
  /** The stop token's id, or the stop string; null where neither ended it. */
  readonly matched_stop: number | string | null;
  readonly completion_tokens: number;
  readonly output_logprobs?: TokenLogprob[];
  readonly hidden_states?: HiddenState[];
}

export interface TokenLogprob {
  readonly token_id: number;
  /** Natural log; null at the prompt's first token. */
  readonly logprob: number | null;
  /** Best first. */
  readonly top_logprobs?: IdLogprob[];
  readonly token_ids_logprob?: IdLogprob[];
}

type IdLogprob = readonly [id: number, logprob: number];

export interface HiddenState {
  readonly position: number;
  readonly values: number[];
}

/** Gathers what a stream tells of one sample. */
export class SampleGatherer {
  readonly index: number;
  readonly ids: number[] = [];
  text = '';
  inputLogprobs: InputLogProbs | undefined;
  complete: GenerateComplete | undefined;
  readonly #promptTokens: number;
  readonly #logprobs: OutputLogProbs[] = [];
  readonly #hidden: HiddenState[] = [];

  constructor(index: number, promptTokens: number) {
    this.index = index;
    this.#promptTokens = promptTokens;
  }

  addChunk(chunk: GenerateStreamChunk): void {
    const { tokenIds, hiddenStates } = chunk;
    this.inputLogprobs ??= chunk.inputLogprobs;
    if (chunk.outputLogprobs) this.#logprobs.push(chunk.outputLogprobs);
    const size = hiddenStates.length / tokenIds.length;
    // Each token's is that of the position before it, from which it was drawn.
    const first = this.#promptTokens - 1 + this.ids.length;
    for (let i = 0; size > 0 && i < tokenIds.length; i++) {
      this.#hidden.push({ position: first + i, values: hiddenStates.slice(i * size, (i + 1) * size).map(shown) });
    }
    this.ids.push(...tokenIds);
  }

  /** The ids that no chunk has brought: all of them where the request doesn't stream. */
  addComplete(complete: GenerateComplete): number[] {
    this.complete = complete;
    this.inputLogprobs ??= complete.inputLogprobs;
    const rest = complete.outputIds.slice(this.ids.length);
    this.ids.push(...rest);
    return rest;
  }

  result(request: GenerateRequest): SampleResult {
    const complete = this.complete!;
    // A complete that would be too large for a message leaves them to the chunks.
    const logprobs = complete.outputLogprobs ? [complete.outputLogprobs] : this.#logprobs;
    const hidden = complete.allHiddenStates.length > 0 ? complete.allHiddenStates.map(hiddenOf) : this.#hidden;
    return {
      index: this.index,
      output_ids: this.ids,
      text: this.text,
      finish_reason: complete.finishReason,
      matched_stop: complete.matchedStop.value ?? null,
      completion_tokens: complete.completionTokens,
      ...(request.returnLogprob ? { output_logprobs: logprobs.flatMap((own) => outputLogprobs(own, request)) } : {}),
      ...(request.returnHiddenStates ? { hidden_states: hidden } : {}),
    };
  }
}

/** The whole result; the samples by index, each complete. */
export function resultOf(request: GenerateRequest, samples: readonly SampleGatherer[]): GenerateResult {
  const results = samples.map((sample) => sample.result(request));
  const { promptTokens, cachedTokens } = samples[0]!.complete!;
  const input = samples.find(({ inputLogprobs }) => inputLogprobs)?.inputLogprobs;
  return {
    request_id: request.requestId,
    prompt_ids: request.tokenized?.inputIds ?? [],
    prompt_tokens: promptTokens,
    cached_tokens: cachedTokens,
    ...results[0]!,
    ...(input ? { input_logprobs: inputLogprobs(input, request) } : {}),
    ...(results.length > 1 ? { samples: results } : {}),
  };
}

function outputLogprobs(own: OutputLogProbs, request: GenerateRequest): TokenLogprob[] {
  return own.tokenIds.map((id, i) => ({
    token_id: id,
    logprob: shown(own.tokenLogprobs[i]!),
    ...beside(own.topLogprobs[i], request, own.tokenIdsLogprobs[i]),
  }));
}

function inputLogprobs(own: InputLogProbs, request: GenerateRequest): TokenLogprob[] {
  return own.tokenIds.map((id, i) => {
    const value = own.tokenLogprobs[i]?.value;
    return {
      token_id: id,
      logprob: value === undefined ? null : shown(value),
      ...beside(own.topLogprobs[i], request),
    };
  });
}

/** The asked-for ids come after the best ones, which is where gateways of the first generation find them. */
function beside(all: TopLogProbs | undefined, request: GenerateRequest, ids?: TopLogProbs) {
  const pairs = pairsOf(all);
  const top = request.topLogprobsNum;
  return {
    ...(top > 0 ? { top_logprobs: pairs.slice(0, top) } : {}),
    ...(request.tokenIdsLogprob.length > 0 ? { token_ids_logprob: ids ? pairsOf(ids) : pairs.slice(top) } : {}),
  };
}

function pairsOf(all: TopLogProbs | undefined): IdLogprob[] {
  return (all?.values ?? []).map((value, i) => [all!.tokenIds[i]!, shown(value)]);
}

function hiddenOf({ position, values }: HiddenStates): HiddenState {
  return { position, values: values.map(shown) };
}

/** A float32 with no more digits than it has. */
function shown(value: number): number {
  return Number(showFloat(value));
}
