import {
  type Finished,
  Finished_Reason,
  type NodeLoad,
  type Tokens,
  type TopLogprobs,
} from '../contract/gen/node_relay_pb.ts';
import type { Finish, Job, NewToken, Sample, TopOfPosition } from './job.ts';
import { Lie } from './lie.ts';
import type { NodeFacts } from './node-facts.ts';

/** The smallest float32: what a logprob of −∞ is told as. */
const LOWEST = -3.4028234663852886e38;

/** What a node was asked for, as far as it bounds what it may answer. */
export interface Bounds {
  readonly vocabSize: number;
  /** The most output tokens the node was told to make, those before a failover included. */
  readonly maxNewTokens: number;
}

/** Checks tokens against what the node was asked and has told before. Throws Lie. */
export function checkTokens(job: Job, sample: Sample, tokens: Tokens, bounds: Bounds): NewToken[] {
  const { tokenIds, logprobs, topLogprobs } = tokens;
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
  if (tokenIds.slice(0, -1).some((id) => stopTokenIds.includes(id))) throw new Lie('tokens after a stop token');
  if (tokenIds.some((id) => id >= bounds.vocabSize)) throw new Lie('a token outside the vocabulary');
  const { outputLogprobs, topLogprobs: top } = job.request;
  if (logprobs.length !== (outputLogprobs ? count : 0)) throw new Lie('another number of logprobs than tokens');
  if (topLogprobs.length !== (top > 0 ? count : 0)) throw new Lie('another number of top logprobs than tokens');
  return tokenIds.map((id, at) => ({
    id,
    logprob: outputLogprobs ? checkLogprob(logprobs[at] as number) : undefined,
    top: top > 0 ? checkTop(topLogprobs[at] as TopLogprobs, top, bounds.vocabSize) : undefined,
  }));
}

function checkTop(top: TopLogprobs, count: number, vocabSize: number): TopOfPosition {
  if (top.tokenIds.length !== count || top.logprobs.length !== count) throw new Lie('another number of top logprobs');
  if (top.tokenIds.some((id) => id >= vocabSize)) throw new Lie('a top token outside the vocabulary');
  return { ids: top.tokenIds, logprobs: top.logprobs.map(checkLogprob) };
}

function checkLogprob(value: number): number {
  // A sum of float32 exponentials may come out a hair below the best term: a logprob may be a hair above 0.
  if (Number.isNaN(value) || value > 1e-2) throw new Lie('a logprob that is none');
  return Math.max(value, LOWEST);
}

/** Checks how a node says a sample ended. Throws Lie. */
export function checkFinished(job: Job, sample: Sample, finished: Finished, bounds: Bounds): Finish {
  if (sample.finish) throw new Lie('a second end of a sample');
  const made = sample.ids.length;
  if (finished.completionTokens !== made) {
    throw new Lie(`an end after ${finished.completionTokens} tokens, where ${made} had come`);
  }
  const { matched } = finished;
  const { stopTokenIds, stopStrings } = job.request.sampling;
  switch (finished.reason) {
    case Finished_Reason.LENGTH:
      if (made !== bounds.maxNewTokens) throw new Lie(`"length" at ${made} of ${bounds.maxNewTokens} tokens`);
      return { reason: 'length' };
    case Finished_Reason.STOP:
      if (matched.case === 'matchedTokenId') {
        if (sample.ids.at(-1) !== matched.value || !stopTokenIds.includes(matched.value)) {
          throw new Lie('a stop at a token that is no stop token');
        }
        return { reason: 'stop', matchedTokenId: matched.value };
      }
      if (matched.case === 'matchedStopString') {
        if (made === 0) throw new Lie('a stop string in no output');
        if (!stopStrings.includes(matched.value)) throw new Lie('a stop at a text that is no stop string');
        return { reason: 'stop', matchedStopString: matched.value };
      }
      throw new Lie('a stop at nothing');
    default:
      throw new Lie('an end that nobody asked for');
  }
}

/**
 * Throws Lie for values that are no counts, and for counts that can't be. `givenSamples` is how many the node was ever
 * given: of those that the relay has ended since, it may not know yet.
 */
export function checkLoad(load: NodeLoad, facts: NodeFacts, givenSamples: number): NodeLoad {
  const { retracted = 0, waiting } = load;
  if ((load.usedTokens ?? 0) > facts.poolTokens) throw new Lie('more used tokens than its pool has');
  if ((load.cachedTokens ?? 0) > facts.poolTokens) throw new Lie('more cached tokens than its pool has');
  if (retracted > givenSamples) throw new Lie('more retracted sequences than it was given');
  if (retracted > (waiting ?? retracted)) throw new Lie('more retracted sequences than wait');
  if (waiting === 0 && (load.waitingUncachedTokens ?? 0) > 0)
    throw new Lie('tokens of waiting sequences, and none waits');
  for (const value of [load.genThroughput ?? 0, load.cacheHitRate ?? 0]) {
    if (!Number.isFinite(value) || value < 0) throw new Lie('a load that is no number');
  }
  if ((load.cacheHitRate ?? 0) > 1) throw new Lie('a hit rate over 1');
  return load;
}
