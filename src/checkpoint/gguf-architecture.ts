import type { Gguf } from './gguf.ts';
import type { PoolingKind } from './sentence-transformers.ts';

/** One tensor of a GGUF file, and where a checkpoint of Hugging Face's has what is in it. */
export interface GgufTensor {
  readonly name: string;
  /** Outermost first. */
  readonly shape: readonly number[];
  /** Hugging Face's name; several of them share a stack, a slice of the outermost dimension each. */
  readonly names: readonly string[];
  /** Heads whose rows the file has in interleaved order; absent where rows are in Hugging Face's order. */
  readonly interleavedHeads?: number;
  /** The file has 1 + w where Hugging Face's has w. */
  readonly plusOne?: boolean;
  /** The file has [rows, columns] where Hugging Face's has [columns, rows]. */
  readonly transposed?: boolean;
}

/** What a GGUF file says of a model, in Hugging Face's words. */
export interface GgufDescription {
  /** The keys of config.json that the metadata and tensors give, without token ids. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The tensors that the file must have, lazily; an absurd count of layers ends with the first that is missing. */
  readonly tensors: Iterable<GgufTensor>;
  /** Tensors that the config speaks for. */
  readonly spent: readonly string[];
  /** How hidden states become a vector, where the model is for that. */
  readonly pooling?: PoolingKind;
}

/**
 * How GGUF files of one architecture name and order what Hugging Face's files hold. Rejects with CheckpointError naming
 * file and key, also for a key of the architecture that it doesn't know.
 */
export type GgufArchitecture = (gguf: Gguf) => Promise<GgufDescription>;
