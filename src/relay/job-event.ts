import type { NodeEvent } from '../contract/gen/node_relay_pb.ts';
import { checkEmbedded } from './check-embedded.ts';
import { checkFinished, checkInputLogprobs, checkPromptState, checkTokens } from './check-report.ts';
import type { Job } from './job.ts';
import { Lie } from './lie.ts';
import type { LinkSettings } from './link-settings.ts';
import type { RunningJob } from './running-jobs.ts';

export interface JobEventListener {
  /** `ms` is the time they took; undefined where there is no telling. */
  onTokens(count: number, ms: number | undefined): void;
  onFinished(): void;
  /** A vector of so many tokens came. */
  onEmbedded(tokens: number): void;
  /** The sample failed at the node. */
  onFailed(job: Job, code: number, message: string): void;
}

/** What is told of a sample that makes tokens. */
const OF_TOKENS: ReadonlySet<string | undefined> = new Set(['tokens', 'finished', 'inputLogprobs']);

/** Takes in what a node tells of a job that runs there. Throws Lie where that can't be. */
export function takeJobEvent(
  event: NodeEvent,
  running: RunningJob,
  { vocabSize, hiddenSize, vectors }: Pick<LinkSettings, 'vocabSize' | 'hiddenSize' | 'vectors'>,
  listener: JobEventListener,
): void {
  const { job, maxNewTokens } = running;
  const bounds = { vocabSize, hiddenSize, maxNewTokens };
  const sample = job.samples.find(({ index }) => index === event.index);
  if (!sample) throw new Lie('an event of a sample that nobody asked for');
  if (job.request.embedInputs && OF_TOKENS.has(event.event.case)) throw new Lie('tokens, where a vector was asked for');
  switch (event.event.case) {
    case 'embedded': {
      if (!vectors) throw new Lie('a vector of a model that makes none');
      const vector = checkEmbedded(job, sample, event.event.value, vectors);
      running.makes(sample);
      sample.vector = vector;
      running.madeVector();
      job.finishSample(sample, { reason: 'stop' });
      listener.onEmbedded(job.request.embedInputs?.[sample.index]?.ids.length ?? 0);
      listener.onFinished();
      return;
    }
    case 'inputLogprobs':
      job.appendPrompt(checkInputLogprobs(job, sample, event.event.value, bounds));
      // A part of them is told anew where the job moves.
      if (job.promptLogprobs?.whole) running.makes(sample);
      running.told = true;
      return;
    case 'tokens': {
      const { value } = event.event;
      const tokens = checkTokens(job, sample, value, bounds);
      running.makes(sample);
      const ms = running.madeTokens(sample);
      sample.cachedTokens ??= Math.min(value.cachedTokens, job.request.inputIds.length - 1);
      job.append(sample, tokens);
      listener.onTokens(tokens.ids.length, ms);
      return;
    }
    case 'finished': {
      const { value } = event.event;
      const finish = checkFinished(job, sample, value, bounds);
      sample.promptState = checkPromptState(job, sample, value, bounds);
      running.makes(sample);
      sample.cachedTokens ??= Math.min(value.cachedTokens, job.request.inputIds.length - 1);
      job.finishSample(sample, finish);
      listener.onFinished();
      return;
    }
    case 'failed':
      listener.onFailed(job, event.event.value.code, event.event.value.message);
      return;
    default:
      throw new Lie('an event without content');
  }
}
