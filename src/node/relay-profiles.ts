import type { MessageInitShape } from '@bufbuild/protobuf';
import type { NodeEventSchema, Profile } from '../contract/gen/node_relay_pb.ts';
import type { SessionOptions } from './session-options.ts';
import { profileEvent } from './wire.ts';

/** The profiles that a node's relay asks for, each answered once: when it is done, ended, or followed by another. */
export class RelayProfiles {
  /** Of the one asked for last. */
  #profileId = 0n;
  readonly #options: Pick<SessionOptions, 'target' | 'onProfile'>;
  readonly #session: () => string | undefined;
  readonly #report: (event: MessageInitShape<typeof NodeEventSchema>) => void;

  /** `session` is the token of the session just now. */
  constructor(
    options: Pick<SessionOptions, 'target' | 'onProfile'>,
    session: () => string | undefined,
    report: (event: MessageInitShape<typeof NodeEventSchema>) => void,
  ) {
    this.#options = options;
    this.#session = session;
    this.#report = report;
  }

  async take({ profileId, steps, byStage }: Profile): Promise<void> {
    const { target, onProfile } = this.#options;
    if (steps === 0) {
      if (profileId === this.#profileId) target.stopProfile();
      return;
    }
    this.#profileId = profileId;
    const session = this.#session();
    const profile = await target.profile({ steps, byStage });
    // A newer session was asked for nothing.
    if (session === undefined || this.#session() !== session) return;
    this.#report(profileEvent(profileId, profile));
    onProfile?.(profile);
  }
}
