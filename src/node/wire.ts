import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { FAILURE_CODES } from '../contract/failure-codes.ts';
import {
  Finished_Reason,
  type Floats,
  FloatsSchema,
  type Generate,
  type NodeEventSchema,
  type NodeLoadSchema,
  SchedulePolicy,
  type TopLogprobs,
  TopLogprobsSchema,
} from '../contract/gen/node_relay_pb.ts';
import { packFloats } from '../contract/packed-floats.ts';
import type { AdmissionPolicy } from '../engine/admission-order.ts';
import type { CacheNews } from '../engine/cache-log.ts';
import type { EngineLoad } from '../engine/engine-load.ts';
import type { EngineEvent, TopLogprobs as EngineTop, FinishReason } from '../engine/event.ts';
import type { Profile } from '../engine/profile.ts';
import type { Constraint, EngineRequest } from '../engine/request.ts';
import type { SpeculationCounts } from '../engine/speculation.ts';
import { splitEvent } from './split-event.ts';

const KINDS = {
  jsonSchema: 'json_schema',
  regex: 'regex',
  ebnfGrammar: 'ebnf_grammar',
  structuralTag: 'structural_tag',
} as const;

/** The engine's form of a `generate` command. */
export function engineRequest(generate: Generate): EngineRequest {
  const { sampling } = generate;
  return {
    jobId: generate.jobId,
    inputIds: generate.inputIds,
    ...(generate.loraId === '' ? {} : { loraId: generate.loraId }),
    ...(generate.inputEmbeds.length > 0 ? { inputEmbeds: floatsOf(generate.inputEmbeds) } : {}),
    samples: generate.samples,
    sampling: {
      temperature: sampling?.temperature ?? 0,
      topK: sampling?.topK ?? 0,
      topP: sampling?.topP ?? 1,
      minP: sampling?.minP ?? 0,
      seed: sampling?.seed ?? 0n,
      frequencyPenalty: sampling?.frequencyPenalty ?? 0,
      presencePenalty: sampling?.presencePenalty ?? 0,
      repetitionPenalty: sampling?.repetitionPenalty || 1,
      minNewTokens: sampling?.minNewTokens ?? 0,
      maskedStopIds: sampling?.maskedStopIds ?? [],
      biases: (sampling?.logitBiases ?? []).map(({ tokenId, bias }) => ({ id: tokenId, bias })),
    },
    maxNewTokens: sampling?.maxNewTokens ?? 0,
    stopTokenIds: sampling?.stopTokenIds ?? [],
    stopStrings: sampling?.stopStrings ?? [],
    skipSpecialTokens: sampling?.skipSpecialTokens ?? false,
    priority: generate.priority,
    outputLogprobs: generate.outputLogprobs,
    topLogprobs: generate.topLogprobs,
    logprobIds: generate.logprobIds,
    logprobStart: generate.logprobStart,
    hiddenStates: generate.hiddenStates,
    constraint: constraintOf(generate),
  };
}

function constraintOf({ constraint }: Generate): Constraint | undefined {
  return constraint.case === undefined ? undefined : { kind: KINDS[constraint.case], text: constraint.value };
}

/** Little-endian float32, as every platform with WebGPU has it. */
function floatsOf(bytes: Uint8Array): Float32Array {
  // A view of the message's own bytes might not be aligned.
  return new Float32Array(bytes.slice().buffer, 0, Math.floor(bytes.byteLength / 4));
}

const REASONS: Readonly<Record<FinishReason, Finished_Reason>> = {
  stop: Finished_Reason.STOP,
  length: Finished_Reason.LENGTH,
  abort: Finished_Reason.ABORT,
};

type NodeEventInit = MessageInitShape<typeof NodeEventSchema>;

const POLICIES: Readonly<Record<SchedulePolicy, AdmissionPolicy>> = {
  [SchedulePolicy.UNSPECIFIED]: 'lpm',
  [SchedulePolicy.LPM]: 'lpm',
  [SchedulePolicy.FCFS]: 'fcfs',
  [SchedulePolicy.PRIORITY]: 'priority',
};

/** The engine's form of a relay's policy; one of a later version is the default. */
export function admissionPolicy(policy: SchedulePolicy): AdmissionPolicy {
  return POLICIES[policy] ?? 'lpm';
}

/** The wire's form of an engine event: several where one report might not hold it. */
export function nodeEvents(event: EngineEvent): NodeEventInit[] {
  return splitEvent(event).map(nodeEvent);
}

/** Floats go as bytes already encoded: some events hold a whole vocabulary's. */
function packed(values: Float32Array): Floats {
  const floats = create(FloatsSchema);
  packFloats(floats, 1, values);
  return floats;
}

function packedTop({ ids, logprobs }: EngineTop): TopLogprobs {
  const top = create(TopLogprobsSchema, { tokenIds: [...ids] });
  packFloats(top, 2, logprobs);
  return top;
}

function nodeEvent(event: EngineEvent): NodeEventInit {
  const { jobId, index } = event;
  switch (event.type) {
    case 'input-logprobs':
      return {
        jobId,
        index,
        event: {
          case: 'inputLogprobs',
          value: {
            position: event.position,
            logprobs: event.logprobs.map((value) => (value === undefined ? {} : { value })),
            topLogprobs: event.topLogprobs.map(packedTop),
            idLogprobs: event.idLogprobs.map(packed),
          },
        },
      };
    case 'tokens':
      return {
        jobId,
        index,
        event: {
          case: 'tokens',
          value: {
            offset: event.offset,
            tokenIds: [...event.ids],
            cachedTokens: event.cachedTokens,
            logprobs: [...event.logprobs],
            topLogprobs: event.topLogprobs.map(packedTop),
            idLogprobs: event.idLogprobs.map(packed),
            hiddenStates: event.hiddenStates.map(packed),
          },
        },
      };
    case 'finished':
      return {
        jobId,
        index,
        event: {
          case: 'finished',
          value: {
            reason: REASONS[event.reason],
            completionTokens: event.completionTokens,
            cachedTokens: event.cachedTokens,
            ...(event.hiddenState ? { hiddenState: packed(event.hiddenState) } : {}),
            matched:
              typeof event.matched === 'number'
                ? { case: 'matchedTokenId', value: event.matched }
                : typeof event.matched === 'string'
                  ? { case: 'matchedStopString', value: event.matched }
                  : { case: undefined },
          },
        },
      };
    case 'failed':
      return {
        jobId,
        index,
        event: { case: 'failed', value: { code: FAILURE_CODES[event.code], message: event.message } },
      };
  }
}

/** The wire's form of what happened in the prefix cache. */
export function cacheEvent(news: CacheNews): NodeEventInit {
  switch (news.type) {
    case 'stored': {
      const { parent, blocks, ids } = news;
      const value = { blocks: [...blocks], tokenIds: [...ids], ...(parent === undefined ? {} : { parent }) };
      return { event: { case: 'cacheStored', value } };
    }
    case 'removed':
      return { event: { case: 'cacheRemoved', value: { blocks: [...news.blocks] } } };
    case 'cleared':
      return { event: { case: 'cacheCleared', value: {} } };
  }
}

/** Kernels of a stage that the relay takes. */
const MOST_KERNELS = 256;

/** The wire's form of an answer to the profile of this id. */
export function profileEvent(profileId: bigint, { stages, problem }: Profile): NodeEventInit {
  const value = {
    profileId,
    problem,
    stages: stages.map((stage) => ({
      ...stage,
      kernels: stage.kernels.slice(0, MOST_KERNELS).map(({ gbytesPerSecond, gflops, ...kernel }) => ({
        ...kernel,
        ...(gbytesPerSecond === undefined ? {} : { gbytesPerSecond }),
        ...(gflops === undefined ? {} : { gflops }),
      })),
    })),
  };
  return { event: { case: 'profiled', value } };
}

/** What a page adds to its engine's load. */
export interface PageLoad {
  /** In a tab that is not looked at. */
  readonly hidden: boolean;
  /** Its user holds it: nothing new. */
  readonly paused: boolean;
}

/** The wire's form of a node's load. */
export function nodeLoad(load: EngineLoad, page: PageLoad): MessageInitShape<typeof NodeLoadSchema> {
  return {
    running: load.running,
    waiting: load.waiting,
    usedTokens: load.usedTokens,
    maxTokens: load.maxTokens,
    genThroughput: load.genThroughput,
    maxRunning: load.maxRunning,
    weightBytes: BigInt(load.weightBytes),
    kvBytes: BigInt(load.kvBytes),
    gpuBytes: BigInt(load.gpuBytes),
    retracted: load.retracted,
    cachedTokens: load.cachedTokens,
    waitingUncachedTokens: load.waitingUncachedTokens,
    ...page,
    ...(load.lora === undefined ? {} : { loraSlots: load.lora.slots, loraUsed: load.lora.adapters.length }),
    ...(load.cacheHitRate === undefined ? {} : { cacheHitRate: load.cacheHitRate }),
    ...(load.speculation === undefined ? {} : draftCounts(load.speculation)),
  };
}

function draftCounts({ drafts, drafted, accepted }: SpeculationCounts): MessageInitShape<typeof NodeLoadSchema> {
  return { drafts: BigInt(drafts), draftedTokens: BigInt(drafted), acceptedTokens: BigInt(accepted) };
}
