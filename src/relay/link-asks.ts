import type { MessageInitShape } from '@bufbuild/protobuf';
import type { NodeCommandSchema } from '../contract/gen/node_relay_pb.ts';
import type { CheckedProfile } from './check-profile.ts';
import { type Asked, PendingAnswers } from './pending-answers.ts';
import { type Flushed, PendingFlushes } from './pending-flushes.ts';

type Command = NonNullable<MessageInitShape<typeof NodeCommandSchema>['command']>;

/** What one session's node is asked beside jobs and adapters. */
export class LinkAsks {
  readonly flushes = new PendingFlushes();
  readonly profiles = new PendingAnswers<CheckedProfile>('profile');
  private readonly send: (command: Command) => void;
  private over = false;

  constructor(send: (command: Command) => void) {
    this.send = send;
  }

  /** Empties the node's prefix cache. Undefined: its session ended first, or it leaves too many flushes unanswered. */
  async flushCache(): Promise<Flushed | undefined> {
    const asked = this.over ? undefined : this.flushes.ask();
    if (!asked) return undefined;
    this.send({ case: 'flushCache', value: { flushId: asked.id } });
    return asked.answer;
  }

  /** Has the node time the kernels of its next steps. Undefined: its session is over, or it owes too many answers. */
  profile(steps: number, byStage: boolean): Asked<CheckedProfile> | undefined {
    const asked = this.over ? undefined : this.profiles.ask();
    if (asked) this.send({ case: 'profile', value: { profileId: asked.id, steps, byStage } });
    return asked;
  }

  /** Has it answer with what there is. */
  stopProfile(profileId: bigint): void {
    this.send({ case: 'profile', value: { profileId, steps: 0 } });
  }

  /** The session is over: nothing is answered any more. */
  end(): void {
    this.over = true;
    this.flushes.clear();
    this.profiles.clear();
  }
}
