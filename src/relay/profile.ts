import { create } from '@bufbuild/protobuf';
import type { Logger } from 'pino';
import { invalid, unserved } from '../contract/contract-error.ts';
import {
  type ProfileResponse,
  ProfileResponseSchema,
  type StartProfileRequest,
} from '../contract/gen/smg_common_pb.ts';
import type { CheckedProfile } from './check-profile.ts';
import type { Fleet } from './fleet.ts';
import type { NodeLink } from './node-link.ts';
import { profileText } from './profile-text.ts';

/** Steps of a profile without num_steps, and at most. */
const DEFAULT_STEPS = 100;
const MOST_STEPS = 1_000;
/** Nodes have so long to end a profile: one step that is being timed. */
const ANSWER_MS = 60_000;
/** Of a response's message. */
const MOST_CHARACTERS = 256 * 1024;

/** One node of a profile that was started. */
interface Measuring {
  readonly link: NodeLink;
  readonly id: bigint;
  profile: CheckedProfile | undefined;
  /** Resolves once it has answered, or never will. */
  readonly over: Promise<void>;
}

/** StartProfile and StopProfile: has nodes time the kernels of their steps, and tells. One profile at a time. */
export class Profiles {
  readonly #fleet: Pick<Fleet, 'serving'>;
  readonly #log: Logger;
  #measuring: readonly Measuring[] | undefined;

  constructor(fleet: Pick<Fleet, 'serving'>, log: Logger) {
    this.#fleet = fleet;
    this.#log = log;
  }

  /** Asks every node that serves; a profile before it ends. Throws ContractError naming a field. */
  start(request: StartProfileRequest): ProfileResponse {
    const { steps, byStage } = readRequest(request);
    const measuring = this.#fleet.serving.flatMap((link) => this.#ask(link, steps, byStage));
    if (measuring.length === 0) return answerOf(false, 'No node is serving.');
    this.#measuring = measuring;
    const nodes = measuring.length === 1 ? '1 node' : `${measuring.length} nodes`;
    return answerOf(
      true,
      `Timing the kernels of the next ${steps} steps${byStage ? ' of each stage' : ''} at ${nodes}. StopProfile ends it and tells; the relay's log tells too.`,
    );
  }

  /** Ends it where it isn't done, and tells what came of it. `left` gives up waiting. */
  async stop(left: AbortSignal): Promise<ProfileResponse> {
    const measuring = this.#measuring;
    if (!measuring) return answerOf(false, 'No profile was started.');
    this.#measuring = undefined;
    for (const { link, id, profile } of measuring) if (!profile) link.asks.stopProfile(id);
    const late = AbortSignal.any([left, AbortSignal.timeout(ANSWER_MS)]);
    await Promise.race([Promise.all(measuring.map(({ over }) => over)), aborted(late)]);
    const texts = measuring.map(({ link, profile }) =>
      profile
        ? profileText(link.rank, profile)
        : `Rank ${link.rank} ${link.ended ? 'went' : 'did not answer in time'}.`,
    );
    return answerOf(
      measuring.every(({ profile }) => profile !== undefined),
      bounded(texts),
    );
  }

  /** None: the session is over, or owes too many answers. */
  #ask(link: NodeLink, steps: number, byStage: boolean): Measuring[] {
    const asked = link.asks.profile(steps, byStage);
    if (!asked) return [];
    const over = asked.answer.then((profile) => {
      measuring.profile = profile;
      if (profile) this.#log.info({ rank: link.rank, profile: profileText(link.rank, profile) }, 'kernels timed');
    });
    const measuring: Measuring = { link, id: asked.id, profile: undefined, over };
    return [measuring];
  }
}

function readRequest(request: StartProfileRequest): { steps: number; byStage: boolean } {
  const { outputDir, startStep, numSteps, activities, withStack, profileByStage } = request;
  if (numSteps !== undefined && !(numSteps >= 1 && numSteps <= MOST_STEPS)) {
    throw invalid('num_steps', `must be in [1, ${MOST_STEPS}], got ${numSteps}.`);
  }
  if (outputDir) throw unserved('output_dir', "is not served: StopProfile's message and the relay's log tell.");
  if (startStep) throw unserved('start_step', 'is not served: the next steps are timed.');
  const other = activities.find((activity) => activity.toUpperCase() !== 'GPU');
  if (other !== undefined) throw unserved('activities', 'is not served but as GPU: kernels are what is timed.');
  if (withStack) throw unserved('with_stack', 'is not served: kernels have no stacks.');
  return { steps: numSteps ?? DEFAULT_STEPS, byStage: profileByStage };
}

/** As many texts as fit. */
function bounded(texts: readonly string[]): string {
  let told = '';
  for (const [i, text] of texts.entries()) {
    if (told.length + text.length > MOST_CHARACTERS) {
      return `${told}${texts.length - i} of ${texts.length} nodes have no room here: the relay's log has them.`;
    }
    told += `${text}\n`;
  }
  return told.trimEnd();
}

function answerOf(success: boolean, message: string): ProfileResponse {
  return create(ProfileResponseSchema, { success, message });
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
