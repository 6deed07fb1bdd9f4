import { rowWords } from '../gpu/row-words.ts';
import type { EmbedLimits } from './embed-runner.ts';
import type { EncoderConfig } from './encoder-config.ts';
import { BLOCK_TOKENS } from './runner.ts';

/** How much an encoder is to take at a time. */
export interface EncoderSizes {
  /** Shortens what the model takes: ids of one sequence. */
  readonly maxLength?: number | undefined;
  /** Ids of a step of several sequences. */
  readonly maxRows: number;
  readonly maxSequences: number;
  /** Bytes that activations may take: longer sequences than fit are not taken. */
  readonly scratchBytes: number;
}

/** Bytes of activations that `rows` ids of up to `sequences` sequences take. */
export function encoderScratchBytes(config: EncoderConfig, rows: number, sequences: number): number {
  const { hiddenSize, intermediateSize } = config;
  // hidden, between, q, k and v, query, attended; up, activated.
  return rows * 16 * (7 * rowWords(hiddenSize) + 2 * rowWords(intermediateSize)) + kvBytes(config, rows, sequences);
}

/** Keys and values of one layer: each sequence begins with a block of its own. */
export function kvBytes({ hiddenSize }: EncoderConfig, rows: number, sequences: number): number {
  return encoderBlocks(rows, sequences) * 2 * BLOCK_TOKENS * hiddenSize * 4;
}

function encoderBlocks(rows: number, sequences: number): number {
  return Math.ceil(rows / BLOCK_TOKENS) + Math.min(rows, sequences);
}

/** What an encoder takes at a time within its scratch. Throws RangeError where not even one block of ids fits. */
export function encoderLimits(config: EncoderConfig, sizes: EncoderSizes, bindingLimit: number): EmbedLimits {
  const { maxRows, maxSequences, maxLength = config.contextLength, scratchBytes } = sizes;
  const contextLength = Math.min(config.contextLength, maxLength);
  const { hiddenSize, intermediateSize, vocabSize, tokenTypes } = config;
  const widest = 16 * Math.max(rowWords(3 * hiddenSize), rowWords(intermediateSize));
  const wanted = Math.max(maxRows, contextLength);
  let rows = wanted;
  const fits = () =>
    rows * widest <= bindingLimit &&
    kvBytes(config, rows, maxSequences) <= bindingLimit &&
    encoderScratchBytes(config, rows, maxSequences) <= scratchBytes;
  while (rows > 0 && !fits()) rows -= BLOCK_TOKENS;
  const least = Math.min(BLOCK_TOKENS, wanted);
  if (rows < least) {
    throw new RangeError(
      `activations of ${least} ids are over ${scratchBytes} bytes, or one buffer of them over the binding limit of ${bindingLimit} bytes`,
    );
  }
  return {
    ...{ maxSequences, contextLength, vocabSize, tokenTypes },
    maxRows: Math.min(rows, maxRows),
    longest: Math.min(rows, contextLength),
  };
}
