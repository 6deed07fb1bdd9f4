import type { Gguf } from './gguf.ts';

/** How GGUF files of one architecture name and order what Hugging Face's files hold. */
export interface GgufArchitecture {
  /**
   * The keys of config.json that the metadata and tensors give, without token ids. Rejects with CheckpointError naming
   * file and key, also for a key of the architecture that it doesn't know.
   */
  config(gguf: Gguf): Promise<Readonly<Record<string, unknown>>>;
  /** Hugging Face's name of a tensor; undefined for one that its checkpoints don't have. */
  tensorName(ggufName: string): string | undefined;
  /** Heads whose rows the file has in interleaved order; undefined where rows are in Hugging Face's order. */
  interleavedHeads(ggufName: string, config: Readonly<Record<string, unknown>>): number | undefined;
  /** Name and shape (outermost first) of each tensor that the file must have, lazily. */
  required(config: Readonly<Record<string, unknown>>): Iterable<readonly [ggufName: string, shape: readonly number[]]>;
}
