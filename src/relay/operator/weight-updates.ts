import { Code } from '@connectrpc/connect';
import type { Logger } from 'pino';
import { ContractError } from '../../contract/contract-error.ts';
import type { Audits } from '../audit/audits.ts';
import type { Fleet } from '../fleet.ts';
import { hasBegun } from '../has-begun.ts';
import type { Job } from '../job.ts';
import type { JobTable } from '../job-table.ts';
import type { CurrentModel } from '../model/current-model.ts';
import type { Router } from '../router.ts';
import type { ServedModel } from '../served-model.ts';
import { openWeights } from './open-weights.ts';

/** Reading and hashing what is to be served. */
const READ_MS = 3_600_000;

export interface WeightUpdateParts {
  readonly served: CurrentModel;
  readonly fleet: Fleet;
  readonly table: JobTable;
  readonly router: Router;
  readonly audits: Audits;
  /** How long what runs may go on, once the weights are read. */
  readonly drainMs: number;
  /** How long nodes may take to load them, while requests wait and the answer does. */
  readonly loadMs: number;
  /** See OpenModelOptions. */
  readonly cacheDir: string | undefined;
  /** Aborts once the relay closes. */
  readonly closed: AbortSignal;
  readonly log: Logger;
}

/**
 * Puts other weights of the same form in the place of those that are served, one update at a time. Until they are read, checked
 * and hashed nothing changes. Then no request begins any more, and those that have begun go on to their end, as long as they may; with them
 * ends all that was made of the old weights: sessions, prefixes, what audits know. Requests that wait are made of the new ones.
 */
export class WeightUpdates {
  private readonly parts: WeightUpdateParts;
  private busy = false;

  constructor(parts: WeightUpdateParts) {
    this.parts = parts;
  }

  /** Gives what to say of nodes; rejects with ContractError, or as `signal` aborts: then nothing has changed. */
  async update(diskPath: string, signal: AbortSignal): Promise<string> {
    if (this.busy)
      throw new ContractError(Code.Aborted, 'Another update of the weights is under way: ask again later.');
    this.busy = true;
    try {
      const next = await this.read(diskPath, signal);
      if (next.digest === this.parts.served.now.digest) {
        // Byte for byte the same: only where they lie may be another, and what lay there before may go.
        this.parts.served.replace(next);
        return 'These weights are served already.';
      }
      await this.drain(signal);
      // From here on it is done, whether or not whoever asked for it stays.
      return await this.loaded(this.serve(next));
    } finally {
      this.busy = false;
    }
  }

  private async read(diskPath: string, signal: AbortSignal): Promise<ServedModel> {
    const { served, cacheDir: cache, log } = this.parts;
    const late = AbortSignal.timeout(READ_MS);
    const onProgress = (line: string) => log.info(line);
    const options = { cache, onProgress, signal: AbortSignal.any([signal, late]) };
    return openWeights(diskPath, served.now, options).catch((error: unknown) => {
      if (!late.aborted) throw error;
      throw new ContractError(Code.DeadlineExceeded, `disk_path took over ${READ_MS / 60_000} minutes to read.`);
    });
  }

  /** Nothing that hasn't begun begins from now on; resolves once what has is at its end, or had its time. */
  private async drain(signal: AbortSignal): Promise<void> {
    const { router, audits, table, drainMs } = this.parts;
    const over = AbortSignal.any([signal, AbortSignal.timeout(drainMs)]);
    router.phase = 'held';
    audits.giveWay();
    while (this.unfinished.length > 0 && !over.aborted) await table.ended.wait(over);
    if (!signal.aborted) return;
    router.phase = 'open';
    throw signal.reason;
  }

  /** Of the old weights: at a node, or on its way to another. */
  private get unfinished(): readonly Job[] {
    return [...this.parts.table.jobs].filter(
      (job) => job.outcome === undefined && (job.host !== undefined || hasBegun(job)),
    );
  }

  /** The switch, in one turn. Gives how many nodes served the old ones. */
  private serve(next: ServedModel): number {
    const { served, fleet, router, audits, log } = this.parts;
    const before = served.now.digest;
    const nodes = fleet.serving.length;
    for (const job of this.unfinished.filter(hasBegun)) endWithOld(job);
    served.replace(next);
    audits.forget();
    fleet.serveOther(next.digest);
    router.phase = nodes > 0 ? 'loading' : 'open';
    log.info({ before, digest: next.digest, nodes }, 'weights updated');
    return nodes;
  }

  /** Until as many nodes serve as did, or `loadMs`; once there is one, requests wait no longer than otherwise. */
  private async loaded(nodes: number): Promise<string> {
    if (nodes === 0) return 'No node was serving: those that come load them.';
    const { fleet, router, loadMs, closed } = this.parts;
    const over = AbortSignal.any([closed, AbortSignal.timeout(loadMs)]);
    while (fleet.serving.length < nodes && !over.aborted) {
      if (fleet.serving.length > 0) router.phase = 'open';
      await fleet.changed.wait(over);
    }
    router.phase = 'open';
    // Health may have changed with that alone.
    fleet.changed.notify();
    const serving = fleet.serving.length;
    return `Nodes that serve them${serving < nodes ? ` after ${loadMs / 1000} s` : ''}: ${serving} of ${Math.max(nodes, serving)}.`;
  }
}

/** An answer is of one model, so far as it came. */
function endWithOld(job: Job): void {
  if (!job.request.embedInputs) job.abort();
  else {
    const why = 'The weights were updated before all vectors were made: ask again.';
    job.fail(new ContractError(Code.Unavailable, why));
  }
}
