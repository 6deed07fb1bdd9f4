import type { ContractError } from '../contract/contract-error.ts';
import type { Job, ReadyChunk } from './job.ts';
import type { Sample } from './sample.ts';

/** What comes next in a job's stream. */
export type StreamPart =
  | { readonly case: 'chunk'; readonly chunk: ReadyChunk }
  | { readonly case: 'complete'; readonly sample: Sample }
  /** The stream ends with a status that is not OK. */
  | { readonly case: 'failed'; readonly error: ContractError }
  | { readonly case: 'over' };

/**
 * Turns what a job gathers into the parts of its client's stream: every token in exactly one chunk, one complete per sample
 * in index order, then its end.
 */
export class StreamParts {
  private completed = 0;
  private readonly job: Job;

  constructor(job: Job) {
    this.job = job;
  }

  /** Undefined: nothing is ready until `job.changed`. After 'failed' and 'over' nothing comes. */
  next(): StreamPart | undefined {
    const { job } = this;
    const { outcome } = job;
    if (outcome === 'left') return { case: 'over' };
    const chunk = job.nextChunk();
    if (chunk) return { case: 'chunk', chunk };
    const sample = job.samples[this.completed];
    if (!sample) return { case: 'over' };
    if (sample.finish) {
      this.completed++;
      return { case: 'complete', sample };
    }
    return outcome === undefined || outcome === 'complete' ? undefined : { case: 'failed', error: outcome };
  }
}
