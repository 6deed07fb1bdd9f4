/** A tensor in a checkpoint file. */
export interface TensorInfo {
  readonly name: string;
  /** As the file format names it: F32, F16, BF16, …; from GGUF also GGML's block types, whose blocks lie along rows. */
  readonly dtype: string;
  /** Outermost dimension first. */
  readonly shape: readonly number[];
  /** From the start of the file, in bytes. */
  readonly offset: number;
  readonly byteLength: number;
  /** A matrix that the file has the other way round than the model's own files have it (GGUF's GPT-2). */
  readonly transposed?: boolean;
}

/** The tensors of a model's weight file. */
export interface Checkpoint {
  /** What errors call it. */
  readonly name: string;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** A tensor's bytes, or `length` of them from `from` on. */
  read(tensor: TensorInfo, from?: number, length?: number): Promise<Uint8Array>;
}

/** A model file that says something impossible: the message names file, tensor or key, and reason. */
export class CheckpointError extends Error {
  override readonly name = 'CheckpointError';
}
