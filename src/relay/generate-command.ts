import { create } from '@bufbuild/protobuf';
import { type Generate, GenerateSchema } from '../contract/gen/node_relay_pb.ts';
import type { Job } from './job.ts';
import type { NodeFacts } from './node-facts.ts';

/** Output tokens of a job that a node's context and pool hold beside its prompt; negative where that doesn't fit. */
export function roomAt(job: Job, facts: NodeFacts): number {
  return Math.min(facts.contextLength, facts.poolTokens) - job.promptTokens;
}

/** Output tokens that a job may have at a node, those made elsewhere included. */
export function newTokensAt(job: Job, facts: NodeFacts): number {
  return Math.max(0, Math.min(job.request.sampling.maxNewTokens, roomAt(job, facts)));
}

/** Whether every sample that isn't done could go on at a node: one that has output needs room for another token. */
export function fitsAt(job: Job, facts: NodeFacts): boolean {
  const room = roomAt(job, facts);
  const longest = Math.max(0, ...job.unfinished.map((sample) => sample.ids.length));
  return longest === 0 ? room >= 0 : room > longest;
}

const CASES = {
  json_schema: 'jsonSchema',
  regex: 'regex',
  ebnf_grammar: 'ebnfGrammar',
  structural_tag: 'structuralTag',
} as const;

/** What a node is told of a job: its unfinished samples, going on after what other nodes made of them. */
export function generateCommand(job: Job, maxNewTokens: number): Generate {
  const { request } = job;
  const { sampling, constraint, inputEmbeds } = request;
  // Those that have come don't come again.
  const logprobStart = job.promptLogprobs?.whole === false ? request.logprobStart : undefined;
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
      frequencyPenalty: sampling.frequencyPenalty,
      presencePenalty: sampling.presencePenalty,
      repetitionPenalty: sampling.repetitionPenalty,
      minNewTokens: Math.min(sampling.minNewTokens, maxNewTokens),
      maskedStopIds: [...sampling.maskedStopIds],
      logitBiases: sampling.biases.map(({ id, bias }) => ({ tokenId: id, bias })),
    },
    samples: job.unfinished.map(({ index, credit, ids }) => ({ index, credit, emittedIds: [...ids] })),
    outputLogprobs: request.outputLogprobs,
    topLogprobs: request.topLogprobs,
    priority: request.priority,
    logprobIds: [...request.logprobIds],
    ...(logprobStart === undefined ? {} : { logprobStart }),
    hiddenStates: request.hiddenStates,
    inputEmbeds: inputEmbeds ? bytesOf(inputEmbeds) : new Uint8Array(),
    traceparent: job.traceparent ?? '',
    loraId: request.loraId ?? '',
    ...(constraint ? { constraint: { case: CASES[constraint.kind], value: constraint.text } } : {}),
  });
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
