import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { heldBytes } from './held-bytes.ts';
import { Job } from './job.ts';
import { Signal } from './signal.ts';

/** What all open streams together may hold; in memory, lists of numbers take up to twice as much. */
const MAX_HELD_BYTES = 512 * 1024 * 1024;

/** All jobs whose streams are open, within a bound on what they may hold. Ids match as a whole, never by prefix, and an empty one never does. */
export class JobTable {
  readonly jobs = new Set<Job>();
  /** A job has its outcome. */
  readonly ended = new Signal();
  private readonly byRequestId = new Map<string, Job>();
  private lastId = 0n;
  private held = 0;

  /** Whether no job runs or waits; streams may still be written. */
  get idle(): boolean {
    return ![...this.jobs].some((job) => job.outcome === undefined);
  }

  /**
   * Throws ContractError: ALREADY_EXISTS for the id of a running request, which stays as it is, and RESOURCE_EXHAUSTED
   * where the answer might be too much beside the others'.
   */
  add(request: NormalisedRequest): Job {
    const { requestId } = request;
    if (this.byRequestId.has(requestId)) {
      throw new ContractError(Code.AlreadyExists, 'request_id is that of a running request.', 'request_id');
    }
    const bytes = heldBytes(request);
    if (this.held + bytes > MAX_HELD_BYTES) {
      throw new ContractError(
        Code.ResourceExhausted,
        `The request and its answer may take ${bytes} bytes, and ${MAX_HELD_BYTES - this.held} are free: ask for less, or later.`,
      );
    }
    const job = new Job(this.newId(), request);
    this.jobs.add(job);
    this.held += bytes;
    if (requestId !== '') this.byRequestId.set(requestId, job);
    return job;
  }

  /** Of a job, whether it comes into the table or not: nodes know jobs by it. */
  newId(): bigint {
    return ++this.lastId;
  }

  find(requestId: string): Job | undefined {
    return this.byRequestId.get(requestId);
  }

  /** Forgets a job; harmless when done twice. */
  remove(job: Job): void {
    if (!this.jobs.delete(job)) return;
    this.held -= heldBytes(job.request);
    if (this.byRequestId.get(job.request.requestId) === job) this.byRequestId.delete(job.request.requestId);
  }
}
