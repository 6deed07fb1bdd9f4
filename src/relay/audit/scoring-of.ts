import type { Job } from '../job.ts';
import type { Sample } from '../sample.ts';
import { remadeVector } from './remade-vector.ts';
import { replayed } from './replay.ts';
import { rescored, type Scoring } from './scoring.ts';

/** How a finished sample is to be scored. `random`, in [0, 1), says from where on, where it is a part. */
export function scoringOf(job: Job, sample: Sample, vocabSize: number, random: () => number): Scoring {
  const { request, seed } = job;
  const { inputIds: prompt, constraint, inputEmbeds, sampling } = request;
  const { index, ids, vector } = sample;
  if (vector) return remadeVector(request, index, vector);
  const made = { prompt, output: [...ids], sampling, seed, index };
  // What a constraint, embeddings or logits' signs had a part in, logprobs of prompt and output alone don't redraw.
  return constraint || inputEmbeds || sampling.repetitionPenalty !== 1
    ? replayed(request, made, vocabSize, random)
    : rescored(made, vocabSize);
}

/** Tokens that a node takes in to score it. */
export function tokensOf({ request: { embedInputs, inputIds } }: Job, { index, ids }: Sample): number {
  return embedInputs ? embedInputs[index]!.ids.length : inputIds.length + ids.length;
}
