import { BLOCK_TOKENS } from './runner.ts';

/** KV blocks that an embedder has use for: of the longest text, and of a step of short ones, each with a block of its own. */
export function mostEmbedderBlocks(sizes: {
  readonly contextLength: number;
  readonly maxRows: number;
  readonly maxSequences: number;
}): number {
  const { contextLength, maxRows, maxSequences } = sizes;
  return Math.ceil(Math.max(contextLength, maxRows) / BLOCK_TOKENS) + maxSequences;
}
