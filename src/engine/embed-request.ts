import type { FailureCode } from '../contract/failure-codes.ts';

/** One sequence to embed or classify. */
export interface EmbedRequest {
  /** The caller's own; no two of one embedder may have the same at a time. */
  readonly id: string;
  /** With the special ids that the model wants: none is added. */
  readonly ids: ArrayLike<number>;
  /** One for each id; absent: zeros. */
  readonly typeIds?: ArrayLike<number> | undefined;
}

export interface EmbedResult {
  /** The vector, normalised where the model's files say so; or the logits of the classes, nothing done to them. */
  readonly values: Float32Array<ArrayBuffer>;
  /** Ids that were read. */
  readonly tokens: number;
}

/** Why a request was not taken, or not finished, with the status that says so. */
export class EmbedFailure extends Error {
  override readonly name = 'EmbedFailure';
  /** invalid_argument: the request is wrong. resource_exhausted: the queue is full. internal: the GPU failed. */
  readonly code: FailureCode;

  constructor(code: FailureCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** The request was aborted by its id. */
export class EmbedAborted extends Error {
  override readonly name = 'EmbedAborted';
}
