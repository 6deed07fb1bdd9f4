import { type Finished, Finished_Reason, type InputLogprobs, type Tokens } from '../contract/gen/node_relay_pb.ts';
import { checkHidden, checkLists, checkLogprob, type ToldLists } from './check-logprobs.ts';
import type { Job } from './job.ts';
import { Lie } from './lie.ts';
import type { PromptPosition } from './prompt-logprobs.ts';
import type { Finish, NewTokens, Sample, TokenDetails } from './sample.ts';

/** What a node was asked for, as far as it bounds what it may answer. */
export interface Bounds {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** The most output tokens the node was told to make, those before a failover included. */
  readonly maxNewTokens: number;
}

/** Checks tokens against what the node was asked and has told before. Throws Lie. */
export function checkTokens(job: Job, sample: Sample, tokens: Tokens, bounds: Bounds): NewTokens {
  const { tokenIds, logprobs } = tokens;
  const count = tokenIds.length;
  if (sample.finish) throw new Lie('tokens after the end of a sample');
  if (count === 0) throw new Lie('tokens without a token');
  if (tokens.offset !== sample.ids.length) {
    throw new Lie(`tokens at offset ${tokens.offset}, where ${sample.ids.length} had come`);
  }
  const total = sample.ids.length + count;
  if (total > bounds.maxNewTokens) throw new Lie(`${total} tokens, where ${bounds.maxNewTokens} were asked for`);
  if (total > sample.credit) throw new Lie(`${total} tokens, with credit for ${sample.credit}`);
  const { stopTokenIds } = job.request.sampling;
  const last = sample.ids.at(-1);
  if (last !== undefined && stopTokenIds.includes(last)) throw new Lie('tokens after a stop token');
  for (let at = 0; at < count; at++) {
    const id = tokenIds[at]!;
    if (id >= bounds.vocabSize) throw new Lie('a token outside the vocabulary');
    if (at < count - 1 && stopTokenIds.includes(id)) throw new Lie('tokens after a stop token');
  }
  checkMinimum(job, sample, tokenIds);
  if (inputDue(job, sample)) throw new Lie("tokens before the prompt's logprobs");
  const { outputLogprobs, hiddenStates } = job.request;
  if (logprobs.length !== (outputLogprobs ? count : 0)) throw new Lie('another number of logprobs than tokens');
  if (tokens.hiddenStates.length !== (hiddenStates ? count : 0)) {
    throw new Lie('another number of hidden states than tokens');
  }
  const lists = checkLists(job.request, tokens, count, bounds.vocabSize);
  if (!outputLogprobs && !hiddenStates) return { ids: tokenIds };
  const told = (at: number): TokenDetails => ({
    logprob: outputLogprobs ? checkLogprob(logprobs[at] as number) : undefined,
    ...(lists[at] as ToldLists),
    hidden: hiddenStates ? checkHidden(tokens.hiddenStates[at], bounds.hiddenSize) : undefined,
  });
  return { ids: tokenIds, details: tokenIds.map((_, at) => told(at)) };
}

/** Also under a constraint: one that lets nothing else through ends the sample without a stop token. */
function checkMinimum({ request }: Job, sample: Sample, tokenIds: readonly number[]): void {
  const { minNewTokens, maskedStopIds } = request.sampling;
  if (sample.ids.length >= minNewTokens) return;
  const early = tokenIds.slice(0, Math.max(0, minNewTokens - sample.ids.length));
  if (early.some((id) => maskedStopIds.includes(id))) throw new Lie('a stop token before the minimum');
}

/** Whether a sample still has to tell the prompt's logprobs. */
function inputDue(job: Job, sample: Sample): boolean {
  return job.promptLogprobs?.whole === false && sample === job.unfinished[0];
}

/** Checks logprobs of the prompt: in order, once, before the first token, from the first sample. Throws Lie. */
export function checkInputLogprobs(
  job: Job,
  sample: Sample,
  told: InputLogprobs,
  bounds: Bounds,
): readonly PromptPosition[] {
  const { promptLogprobs } = job;
  if (!promptLogprobs) throw new Lie("the prompt's logprobs, which nobody asked for");
  if (!inputDue(job, sample)) throw new Lie("the prompt's logprobs again, or of another sample than the first");
  const { position, logprobs } = told;
  const count = logprobs.length;
  if (count === 0) throw new Lie('logprobs of no position');
  if (position !== promptLogprobs.next) {
    throw new Lie(`logprobs of position ${position}, where ${promptLogprobs.next} is next`);
  }
  if (position + count > promptLogprobs.end) throw new Lie('logprobs past the end of the prompt');
  const lists = checkLists(job.request, told, count, bounds.vocabSize, position);
  return logprobs.map(({ value }, at) => {
    if ((value === undefined) !== (position + at === 0)) throw new Lie('no logprob, or one that nothing comes before');
    return { logprob: value === undefined ? undefined : checkLogprob(value), ...(lists[at] as ToldLists) };
  });
}

/** The last prompt position's hidden state, told where no token was made. Throws Lie. */
export function checkPromptState(
  job: Job,
  sample: Sample,
  { hiddenState }: Finished,
  bounds: Bounds,
): Float32Array | undefined {
  const wanted = job.request.hiddenStates && sample.ids.length === 0;
  if (!wanted && hiddenState) throw new Lie('a hidden state that nobody asked for');
  return wanted ? checkHidden(hiddenState, bounds.hiddenSize) : undefined;
}

/** Checks how a node says a sample ended. Throws Lie. */
export function checkFinished(job: Job, sample: Sample, finished: Finished, bounds: Bounds): Finish {
  if (sample.finish) throw new Lie('a second end of a sample');
  const made = sample.ids.length;
  if (finished.completionTokens !== made) {
    throw new Lie(`an end after ${finished.completionTokens} tokens, where ${made} had come`);
  }
  if (inputDue(job, sample)) throw new Lie("an end before the prompt's logprobs");
  const { matched } = finished;
  const { stopTokenIds, stopStrings } = job.request.sampling;
  switch (finished.reason) {
    case Finished_Reason.LENGTH:
      if (made !== bounds.maxNewTokens) throw new Lie(`"length" at ${made} of ${bounds.maxNewTokens} tokens`);
      return { reason: 'length' };
    case Finished_Reason.STOP:
      if (matched.case === 'matchedTokenId') {
        // A constraint ends where nothing may follow, whatever its last token is.
        const stops = stopTokenIds.includes(matched.value) || job.request.constraint !== undefined;
        if (sample.ids.at(-1) !== matched.value || !stops) throw new Lie('a stop at a token that is no stop token');
        return { reason: 'stop', matchedTokenId: matched.value };
      }
      if (matched.case === 'matchedStopString') {
        if (made === 0) throw new Lie('a stop string in no output');
        if (!stopStrings.includes(matched.value)) throw new Lie('a stop at a text that is no stop string');
        return { reason: 'stop', matchedStopString: matched.value };
      }
      // The empty output may be all that meets a constraint.
      if (job.request.constraint && made === 0) return { reason: 'stop' };
      throw new Lie('a stop at nothing');
    default:
      throw new Lie('an end that nobody asked for');
  }
}
