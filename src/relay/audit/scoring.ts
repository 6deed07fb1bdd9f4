import { Job } from '../job.ts';
import type { TopOfPosition } from '../sample.ts';
import { compareScores, type Judgement, judgeSample, type MadeSample } from './judge.ts';
import { rescoring } from './rescoring.ts';
import { type PrecisionName, toleranceOf } from './tolerance.ts';

/** What one node told of a sample that another made. */
export interface Told {
  /** The best logprobs of each step. */
  readonly rows: readonly TopOfPosition[];
  /** What it drew itself, where it did. */
  readonly ids: readonly number[];
  /** It came to the end of the output, before it was told to stop. */
  readonly ended: boolean;
  /** Of an input that a vector was asked of. */
  readonly vector?: Float32Array;
}

/** A way to have a sample scored: what a node is asked, and what follows from its answer. */
export interface Scoring {
  /** How far two honest nodes of these precisions may lie apart. */
  readonly toleranceOf: (one: PrecisionName, other: PrecisionName) => number;
  newJob(id: bigint): Job;
  /** Undefined where the job ended without it. */
  read(job: Job): Told | undefined;
  /** Of the sample. */
  judge(told: Told, tolerance: number): Judgement;
  /** Whether two nodes told the same. */
  compare(one: Told, other: Told, tolerance: number): Judgement;
}

/** Prompt and output as one prompt: all steps at once, and the relay applies what the draws were adjusted by. */
export function rescored(made: MadeSample, vocabulary: number): Scoring {
  return {
    toleranceOf,
    newJob: (id) => new Job(id, rescoring(made.prompt, made.output, vocabulary)),
    read(job) {
      const rows = job.outcome === 'complete' ? job.promptLogprobs?.take()?.map(({ top }) => top) : undefined;
      return rows?.every((top) => top !== undefined) ? { rows, ids: [], ended: false } : undefined;
    },
    judge: ({ rows }, tolerance) => judgeSample(made, rows, vocabulary, tolerance),
    compare: (one, other, tolerance) => compareScores(one.rows, other.rows, tolerance),
  };
}
