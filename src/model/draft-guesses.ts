import { countRows } from './count-rows.ts';
import { MAX_DRAFT, type StepBatch } from './runner.ts';
import { isIndex, StepError } from './step-error.ts';

/** Of each logits row of a draft: the guessed ids up to the row's own; undefined: it is of none. Throws StepError. */
export function draftGuesses({ sequences, logits }: StepBatch, hiddenSize: number): (readonly number[] | undefined)[] {
  if (logits.every(({ draft }) => draft === undefined)) return [];
  const ends: number[] = [];
  for (const { tokens } of sequences) ends.push((ends.at(-1) ?? 0) + countRows(tokens, hiddenSize));
  return logits.map(({ row, slot, draft }, i) => {
    if (draft === undefined) return undefined;
    const fail = (reason: string): never => {
      throw new StepError(`logits row ${i}: ${reason}`);
    };
    if (!isIndex(draft, MAX_DRAFT + 1)) fail(`draft ${draft}, at most ${MAX_DRAFT}`);
    const index = ends.findIndex((end) => row < end);
    const sequence = sequences[index] ?? fail('a draft without a sequence');
    if (sequence.slot !== slot) fail(`a draft of slot ${slot} on a row of slot ${sequence.slot}`);
    const { tokens } = sequence;
    if (draft === 0) return [];
    if (tokens === 'slot' || 'embeddings' in tokens) return fail('a draft is given by ids');
    const at = row - (ends[index - 1] ?? 0);
    if (draft > at) fail(`a draft of ${draft} ids before row ${at} of its sequence`);
    return Array.from({ length: draft }, (_, guess) => tokens[at + 1 - draft + guess]!);
  });
}
