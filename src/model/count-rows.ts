import type { StepSequence } from './runner.ts';

/** Rows that a sequence's tokens are; a fraction where its embeddings aren't whole rows. */
export function countRows(tokens: StepSequence['tokens'], hiddenSize: number): number {
  if (tokens === 'slot') return 1;
  return 'embeddings' in tokens ? tokens.embeddings.length / hiddenSize : tokens.length;
}
