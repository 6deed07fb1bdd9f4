import { create } from '@bufbuild/protobuf';
import { type Generate, GenerateSchema } from '../contract/gen/node_relay_pb.ts';
import type { Job } from './job.ts';
import type { NodeFacts } from './node-facts.ts';

/** Output tokens that a job may have at a node, those made elsewhere included: what its context and pool hold. */
export function newTokensAt(job: Job, facts: NodeFacts): number {
  const room = Math.min(facts.contextLength, facts.poolTokens) - job.request.inputIds.length;
  return Math.max(0, Math.min(job.request.sampling.maxNewTokens, room));
}

/** What a node is told of a job: its unfinished samples, going on after what other nodes made of them. */
export function generateCommand(job: Job, maxNewTokens: number): Generate {
  const { request } = job;
  const { sampling } = request;
  return create(GenerateSchema, {
    jobId: job.id,
    inputIds: [...request.inputIds],
    sampling: {
      temperature: sampling.temperature,
      topP: sampling.topP,
      topK: sampling.topK,
      minP: sampling.minP,
      seed: job.seed,
      maxNewTokens,
      stopTokenIds: [...sampling.stopTokenIds],
      stopStrings: [...sampling.stopStrings],
      skipSpecialTokens: sampling.skipSpecialTokens,
      spacesBetweenSpecialTokens: sampling.spacesBetweenSpecialTokens,
      noStopTrim: sampling.noStopTrim,
    },
    samples: job.unfinished.map(({ index, credit, ids }) => ({ index, credit, emittedIds: [...ids] })),
    outputLogprobs: request.outputLogprobs,
    topLogprobs: request.topLogprobs,
  });
}
