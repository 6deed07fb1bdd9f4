import { countRows } from './count-rows.ts';
import type { ForwardModel } from './forward-model.ts';
import type { StepSequence } from './runner.ts';

/** Hands a model the embeddings that a step's sequences bring in place of its own, [rows, hiddenSize] each. */
export function giveEmbeddings(model: ForwardModel, sequences: readonly StepSequence[], hiddenSize: number): void {
  let row = 0;
  for (const { tokens } of sequences) {
    if (tokens !== 'slot' && 'embeddings' in tokens) model.giveEmbeddings(row, tokens.embeddings);
    row += countRows(tokens, hiddenSize);
  }
}
