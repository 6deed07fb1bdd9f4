import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  Finished_Reason,
  type Generate,
  type NodeEventSchema,
  type NodeLoadSchema,
  SchedulePolicy,
} from '../contract/gen/node_relay_pb.ts';
import type { AdmissionPolicy } from '../engine/admission-order.ts';
import type { EngineLoad } from '../engine/engine-load.ts';
import type { EngineEvent, FailureCode, FinishReason } from '../engine/event.ts';
import type { EngineRequest } from '../engine/request.ts';

/** The engine's form of a `generate` command. */
export function engineRequest(generate: Generate): EngineRequest {
  const sampling = generate.sampling;
  return {
    jobId: generate.jobId,
    inputIds: generate.inputIds,
    samples: generate.samples,
    sampling: {
      temperature: sampling?.temperature ?? 0,
      topK: sampling?.topK ?? 0,
      topP: sampling?.topP ?? 1,
      minP: sampling?.minP ?? 0,
      seed: sampling?.seed ?? 0n,
    },
    maxNewTokens: sampling?.maxNewTokens ?? 0,
    stopTokenIds: sampling?.stopTokenIds ?? [],
    stopStrings: sampling?.stopStrings ?? [],
    skipSpecialTokens: sampling?.skipSpecialTokens ?? false,
    priority: generate.priority,
    outputLogprobs: generate.outputLogprobs,
    topLogprobs: generate.topLogprobs,
  };
}

const REASONS: Readonly<Record<FinishReason, Finished_Reason>> = {
  stop: Finished_Reason.STOP,
  length: Finished_Reason.LENGTH,
  abort: Finished_Reason.ABORT,
};

/** https://grpc.github.io/grpc/core/md_doc_statuscodes.html */
const CODES: Readonly<Record<FailureCode, number>> = {
  invalid_argument: 3,
  resource_exhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
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

/** The wire's form of an engine event. */
export function nodeEvent(event: EngineEvent): NodeEventInit {
  const { jobId, index } = event;
  switch (event.type) {
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
            topLogprobs: event.topLogprobs.map((top) => ({ tokenIds: [...top.ids], logprobs: [...top.logprobs] })),
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
      return { jobId, index, event: { case: 'failed', value: { code: CODES[event.code], message: event.message } } };
  }
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
    ...(load.cacheHitRate === undefined ? {} : { cacheHitRate: load.cacheHitRate }),
  };
}
