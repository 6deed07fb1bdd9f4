import { StepError } from './step-error.ts';

/** Words of a mask: a bit per id of the vocabulary. */
export function maskWords(vocabSize: number): number {
  return Math.ceil(vocabSize / 32);
}

/** Throws StepError unless `masks` has one mask, or undefined, for each of `rows` masked rows. */
export function checkMasks(masks: readonly (Uint32Array | undefined)[], rows: number, vocabSize: number): void {
  if (rows === 0) throw new StepError('no masked rows wait for their masks');
  if (masks.length !== rows) throw new StepError(`${masks.length} masks for ${rows} masked rows`);
  const words = maskWords(vocabSize);
  masks.forEach((mask, i) => {
    if (mask && mask.length !== words) throw new StepError(`mask ${i} has ${mask.length} words, not ${words}`);
  });
}
