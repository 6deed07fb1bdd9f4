/** A request as the engine takes it: checked and with every default settled. */
export interface EngineRequest {
  /** The relay's own id of the job. */
  readonly jobId: bigint;
  readonly inputIds: readonly number[];
  /** In place of the model's own embeddings of `inputIds`: [inputIds.length, hiddenSize]. */
  readonly inputEmbeds?: Float32Array;
  /** The LoRA adapter that it asks for; absent: none. */
  readonly loraId?: string;
  readonly samples: readonly RequestedSample[];
  readonly sampling: RequestSampling;
  /** 0 is prefill only. */
  readonly maxNewTokens: number;
  /** EOS ids among them, unless they are to be ignored. */
  readonly stopTokenIds: readonly number[];
  readonly stopStrings: readonly string[];
  /** Special tokens add nothing to the text in which stop strings are looked for. */
  readonly skipSpecialTokens: boolean;
  /** Of use under the policy 'priority': a higher one is admitted first. */
  readonly priority: number;
  readonly outputLogprobs: boolean;
  /** Best logprobs of each position whose logprob is told. */
  readonly topLogprobs: number;
  /** Ids whose logprobs are told at each position whose logprob is told. */
  readonly logprobIds: readonly number[];
  /**
   * First prompt position whose logprob is told, by the first sample; undefined is none. Position 0 has no logprob, and
   * is told without one.
   */
  readonly logprobStart: number | undefined;
  /** Tell the hidden state of the last prompt position and of each output position that is computed. */
  readonly hiddenStates: boolean;
  /** What the output must match. */
  readonly constraint: Constraint | undefined;
}

/** What an output must match. */
export interface Constraint {
  readonly kind: 'json_schema' | 'regex' | 'ebnf_grammar' | 'structural_tag';
  readonly text: string;
}

export interface RequestedSample {
  /** Number of the choice; part of the draw's key. */
  readonly index: number;
  /** Output tokens that may be made before the sequence is parked. */
  readonly credit: number;
  /** Output so far, made elsewhere: the sample goes on after it. */
  readonly emittedIds: readonly number[];
}

export interface RequestSampling {
  /** 0 is greedy. */
  readonly temperature: number;
  /** 0 is all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** 64 bits. */
  readonly seed: bigint;
  /** In [−2, 2], over output tokens only, as the other two. */
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  /** In (0, 2]; 1 is none. */
  readonly repetitionPenalty: number;
  /** Stop ids and EOS can't be drawn before. */
  readonly minNewTokens: number;
  /** Also those that end no sequence where EOS is ignored: what minNewTokens masks. */
  readonly maskedStopIds: readonly number[];
  /** Added to the logits; ids differ. */
  readonly biases: readonly { readonly id: number; readonly bias: number }[];
}
