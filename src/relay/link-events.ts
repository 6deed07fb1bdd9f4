import type { NodeEvent, NodeLoad } from '../contract/gen/node_relay_pb.ts';
import { type CheckedProfile, checkProfile } from './check-profile.ts';
import { type JobEventListener, takeJobEvent } from './job-event.ts';
import { Lie } from './lie.ts';
import type { LinkSettings } from './link-settings.ts';
import type { LinkAdapters } from './lora/link-adapters.ts';
import type { NodeFacts } from './node-facts.ts';
import type { NodePrefixes } from './node-prefixes.ts';
import type { PendingAnswers } from './pending-answers.ts';
import type { PendingFlushes } from './pending-flushes.ts';
import type { RunningJobs } from './running-jobs.ts';

/** Blocks of its cache that a node may tell of in one report: some 20 ms to take in. A page tells 128. */
const REPORT_BLOCKS = 4_096;

export interface LinkEventParts extends JobEventListener {
  readonly facts: NodeFacts;
  readonly jobs: RunningJobs;
  readonly flushes: PendingFlushes;
  readonly profiles: PendingAnswers<CheckedProfile>;
  readonly prefixes: NodePrefixes;
  readonly adapters: LinkAdapters;
  readonly settings: LinkSettings;
}

/** Takes in what one session's node tells, event by event, and believes nothing that can't be. */
export class LinkEvents {
  private readonly parts: LinkEventParts;

  constructor(parts: LinkEventParts) {
    this.parts = parts;
  }

  /** Takes in a report's events; `load` is what it told besides. Throws Lie. */
  takeAll(events: readonly NodeEvent[], load: NodeLoad | undefined): void {
    let blocks = 0;
    for (const { event } of events) blocks += blocksIn(event);
    if (blocks > REPORT_BLOCKS) throw new Lie(`${blocks} cached blocks in one report`);
    for (const event of events) this.take(event, load);
  }

  private take(event: NodeEvent, load: NodeLoad | undefined): void {
    const { jobs } = this.parts;
    try {
      if (!this.takeOwn(event, load)) this.takeOfJob(event);
    } catch (error) {
      if (error instanceof Lie) jobs.find(event.jobId)?.job.liedAbout();
      throw error;
    }
  }

  /** Events of no job. False: it is another. */
  private takeOwn({ jobId, event }: NodeEvent, load: NodeLoad | undefined): boolean {
    const { facts, flushes, profiles, prefixes, adapters } = this.parts;
    switch (event.case) {
      case 'cacheFlushed': {
        const { flushId, freedTokens } = event.value;
        if (freedTokens > facts.poolTokens) throw new Lie('more freed tokens than its pool has');
        flushes.answer(flushId, { freedTokens, keptTokens: load?.cachedTokens });
        break;
      }
      case 'profiled':
        profiles.answer(event.value.profileId, checkProfile(event.value));
        break;
      case 'adapterDone':
        adapters.done(event.value);
        break;
      case 'cacheStored':
        prefixes.stored(event.value);
        break;
      case 'cacheRemoved':
        prefixes.removed(event.value);
        break;
      case 'cacheCleared':
        prefixes.clear();
        break;
      default:
        return false;
    }
    if (jobId !== 0n) throw new Lie('an event of the node and of a job');
    return true;
  }

  private takeOfJob(event: NodeEvent): void {
    const { jobs, settings } = this.parts;
    const running = jobs.find(event.jobId);
    if (!running) {
      if (jobs.wasHere(event.jobId)) return;
      throw new Lie('an event of a job that it never had');
    }
    takeJobEvent(event, running, settings, this.parts);
  }
}

function blocksIn(event: NodeEvent['event']): number {
  return event.case === 'cacheStored' || event.case === 'cacheRemoved' ? event.value.blocks.length : 0;
}
