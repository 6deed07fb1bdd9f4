import { create } from '@bufbuild/protobuf';
import { type RequestTimeline, RequestTimelineSchema } from '../../contract/gen/fleet_monitor_pb.ts';
import type { Job } from '../job.ts';
import { timelineOf } from './request-timeline.ts';

/** Ended requests that are remembered. */
const REMEMBERED = 100;

/** The requests that ended last, the newest first: ids, counts and times, and nothing of their texts. */
export class RecentRequests {
  private readonly ring: (RequestTimeline | undefined)[] = Array.from({ length: REMEMBERED });
  private added = 0;

  /** Its outcome is known. */
  add(job: Job): void {
    this.ring[this.added++ % REMEMBERED] = create(RequestTimelineSchema, timelineOf(job, performance.now()));
  }

  newest(most: number): RequestTimeline[] {
    const count = Math.min(most, this.added, REMEMBERED);
    return Array.from({ length: count }, (_, back) => this.ring[(this.added - 1 - back) % REMEMBERED]!);
  }
}
