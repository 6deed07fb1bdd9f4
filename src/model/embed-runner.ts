/** One sequence to make a vector of. */
export interface EmbedSequence {
  readonly ids: ArrayLike<number>;
  /** One for each id; absent: zeros. */
  readonly typeIds?: ArrayLike<number> | undefined;
}

export interface EmbedLimits {
  /** Ids of a step of several sequences. */
  readonly maxRows: number;
  /** Sequences of one step. */
  readonly maxSequences: number;
  /** Ids of one sequence that the model takes, special ones included. */
  readonly contextLength: number;
  /** Those that there is memory for here: at most contextLength. */
  readonly longest: number;
  readonly vocabSize: number;
  /** Token types there are; 1: all are 0. */
  readonly tokenTypes: number;
}

/** Makes vectors of sequences on a GPU, one step at a time. */
export interface EmbedRunner {
  /** Vectors, or logits of classes. */
  readonly kind: 'embedding' | 'classifier';
  /** Numbers of a result: of a vector, or classes. */
  readonly dimension: number;
  readonly limits: EmbedLimits;
  readonly weightBytes: number;
  /** Bytes of all buffers alive, weights included. */
  readonly allocatedBytes: number;
  /**
   * Encodes and submits a step at once; gives [dimension] for each sequence, in order. A second call may come before the
   * first one's promise settles. Rejects with StepError where the batch breaks a limit, with RunnerLostError once the device
   * is lost.
   */
  embed(sequences: readonly EmbedSequence[]): Promise<Float32Array<ArrayBuffer>[]>;
  /** Frees every buffer. */
  destroy(): void;
}
