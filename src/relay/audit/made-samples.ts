import type { Job } from '../job.ts';
import type { Sample } from '../sample.ts';
import { shownId } from '../shown-id.ts';

/** What ended so long ago is not flagged. */
export const FLAGGED_MS = 600_000;
/** Samples that ended of one node that may be flagged; the newest. */
export const MOST_FLAGGED = 1_000;
/** Samples that ended, of all nodes; the newest. Some 300 bytes each. */
export const MOST_ENDED = 32_768;

/** A sample by which its client's log finds it. */
export interface FlaggedSample {
  readonly job: string;
  readonly request: string;
  readonly index: number;
}

interface EndedSample {
  readonly at: number;
  /** Nodes that made what its client may have been told, by id. */
  readonly makers: readonly string[];
  readonly sample: FlaggedSample;
  flagged: boolean;
}

/** Which nodes made what clients were told in the last minutes: what is flagged once one of them is found to lie. */
export class MadeSamples {
  /** A ring: `next` is where the next goes, and the oldest is. */
  private readonly ended: EndedSample[] = [];
  private next = 0;
  private readonly now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.now = now;
  }

  /** Takes note of a job that is over, in whatever way. */
  jobEnded(job: Job): void {
    for (const sample of job.samples) {
      if (sample.flagged) continue;
      const makers: string[] = [];
      for (const [nodeId, from] of sample.makers) if (mayBeTold(job, sample, from)) makers.push(nodeId);
      if (makers.length === 0) continue;
      this.ended[this.next] = { at: this.now(), makers, sample: flaggedSample(job, sample), flagged: false };
      this.next = (this.next + 1) % MOST_ENDED;
    }
  }

  /**
   * Flags what a node had a part in: samples that ended in the last ten minutes, and of `jobs` those that go on, wherever they
   * do. Each sample is given once, oldest first.
   */
  flag(nodeId: string, jobs: Iterable<Job>): readonly FlaggedSample[] {
    const flagged: FlaggedSample[] = [];
    const since = this.now() - FLAGGED_MS;
    const { length } = this.ended;
    for (let back = 1; back <= length; back++) {
      const one = this.ended[(this.next - back + length) % length]!;
      if (one.at < since) break;
      if (one.flagged || !one.makers.includes(nodeId)) continue;
      one.flagged = true;
      if (flagged.length < MOST_FLAGGED) flagged.push(one.sample);
    }
    flagged.reverse();
    for (const job of jobs) {
      if (job.outcome !== undefined) continue;
      for (const sample of job.samples) {
        if (sample.flagged || !sample.makers.has(nodeId)) continue;
        sample.flagged = true;
        flagged.push(flaggedSample(job, sample));
      }
    }
    return flagged;
  }
}

/** A sample of a job, by which its client's log finds it. */
export function flaggedSample(job: Job, { index }: Pick<Sample, 'index'>): FlaggedSample {
  return { job: String(job.id), request: shownId(job.request.requestId), index };
}

/** Whether a client may have been told what came behind a sample's first `from` ids. The job is over. */
function mayBeTold({ outcome, request, whole }: Job, { chunked, finish }: Sample, from: number): boolean {
  // Of vectors there is no part that could be told.
  if (request.embedInputs) return whole;
  // An answer that isn't streamed comes as a whole or not at all.
  return outcome === 'complete' || (request.stream && (chunked > from || finish !== undefined));
}
