import type { Job } from './job.ts';
import type { NodeLink } from './node-link.ts';

/** What a link tells the fleet. */
export interface LinkOwner {
  /** The session is over; `jobs` ran there, in the order they came. */
  onLinkEnd(link: NodeLink, jobs: readonly Job[]): void;
  /** Room came free, or the stream came or went. */
  onLinkChange(link: NodeLink): void;
  /** The node can't go on with a job, which has left it. */
  onJobFailed(link: NodeLink, job: Job): void;
  /** Whether another node would take what runs at this one. */
  couldMove(link: NodeLink, job: Job): boolean;
  /** The job has left a node that is to leave, for another. */
  onJobMoved(link: NodeLink, job: Job): void;
  /** Tokens of one sample were taken in, `ms` milliseconds after it could make them; undefined for its first at a node. */
  onTokens(count: number, ms: number | undefined): void;
  /** A vector of so many tokens was taken in. */
  onEmbedded(tokens: number): void;
}
