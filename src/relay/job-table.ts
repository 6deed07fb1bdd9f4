import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { Job } from './job.ts';
import { Signal } from './signal.ts';

/** All jobs whose streams are open. Ids match as a whole, never by prefix, and an empty one never does. */
export class JobTable {
  readonly jobs = new Set<Job>();
  /** A job has its outcome. */
  readonly ended = new Signal();
  private readonly byRequestId = new Map<string, Job>();
  private lastId = 0n;

  /** Whether no job runs or waits; streams may still be written. */
  get idle(): boolean {
    return ![...this.jobs].some((job) => job.outcome === undefined);
  }

  /** Throws ContractError (ALREADY_EXISTS) for the id of a running request, which stays as it is. */
  add(request: NormalisedRequest): Job {
    const { requestId } = request;
    if (this.byRequestId.has(requestId)) {
      throw new ContractError(Code.AlreadyExists, 'request_id is that of a running request.', 'request_id');
    }
    const job = new Job(++this.lastId, request);
    this.jobs.add(job);
    if (requestId !== '') this.byRequestId.set(requestId, job);
    return job;
  }

  find(requestId: string): Job | undefined {
    return this.byRequestId.get(requestId);
  }

  /** Forgets a job; harmless when done twice. */
  remove(job: Job): void {
    this.jobs.delete(job);
    if (this.byRequestId.get(job.request.requestId) === job) this.byRequestId.delete(job.request.requestId);
  }
}
