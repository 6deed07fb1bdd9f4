import { create, type JsonObject } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  type GetModelInfoResponse,
  GetModelInfoResponseSchema,
  type GetServerInfoResponse,
  GetServerInfoResponseSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import type { NodeLink } from './node-link.ts';
import type { ServedModel } from './served-model.ts';

/** Nodes tell their pools; a sum of them may be more than the proto's field holds. */
const MAX_INT32 = 2 ** 31 - 1;

/** The first characters of the digest: enough to tell two sets of weights apart. */
function weightVersion(model: ServedModel): string {
  return model.digest.slice(0, 12);
}

export function modelInfoOf(model: ServedModel): GetModelInfoResponse {
  return create(GetModelInfoResponseSchema, {
    modelPath: model.folder,
    tokenizerPath: model.folder,
    servedModelName: model.name,
    isGeneration: model.task === 'generate',
    weightVersion: weightVersion(model),
    maxContextLength: model.contextLength,
    // A prompt of the whole context is taken: it leaves room for no output.
    maxReqInputLen: model.contextLength,
    vocabSize: model.vocabSize,
    modelType: model.modelType,
    architectures: [...model.architectures],
    ...classesOf(model),
    eosTokenIds: [...model.eosTokenIds],
    padTokenId: model.padTokenId ?? 0,
    bosTokenId: model.bosTokenId ?? 0,
  });
}

/** As config.json of the hub's writes them. */
function classesOf({ vectors }: ServedModel): { id2labelJson?: string; numLabels?: number } {
  const labels = vectors?.classes?.labels;
  return labels ? { id2labelJson: JSON.stringify({ ...labels }), numLabels: labels.length } : {};
}

export interface ServerState {
  readonly packageVersion: string;
  /** Wall clock at start, in milliseconds; told to clients only. */
  readonly startedAtMs: number;
  readonly uptimeSeconds: number;
  readonly activeRequests: number;
  /** Nodes are there, and the users of all hold them. */
  readonly paused: boolean;
  /** They load other weights. */
  readonly loading: boolean;
  readonly lastRequestAtMs: number | undefined;
  readonly ranks: number | undefined;
  readonly schedulePolicy: string;
}

/** SGLang's server arguments, as far as the relay has such. Capacities are those of the nodes that serve now; without one they are left out. */
export function serverArgsOf(
  model: ServedModel,
  links: readonly NodeLink[],
  { ranks, schedulePolicy }: Pick<ServerState, 'ranks' | 'schedulePolicy'>,
): JsonObject {
  const poolTokens = links.reduce((total, link) => total + link.facts.poolTokens, 0);
  const maxRunning = links.reduce((total, link) => total + link.facts.maxRunning, 0);
  return {
    model_path: model.folder,
    tokenizer_path: model.folder,
    served_model_name: model.name,
    tp_size: 1,
    pp_size: 1,
    dp_size: ranks ?? 1,
    context_length: model.contextLength,
    vocab_size: model.vocabSize,
    weight_version: weightVersion(model),
    schedule_policy: schedulePolicy,
    load_balance_method: 'shortest_queue',
    disaggregation_mode: 'null',
    is_embedding: model.task !== 'generate',
    ...(links.length > 0 ? { max_total_tokens: poolTokens, max_running_requests: maxRunning } : {}),
  };
}

/** Capacities are those of the nodes that serve now; without one they are left out. */
export function serverInfoOf(
  model: ServedModel,
  links: readonly NodeLink[],
  state: ServerState,
): GetServerInfoResponse {
  const poolTokens = links.reduce((total, link) => total + link.facts.poolTokens, 0);
  return create(GetServerInfoResponseSchema, {
    serverArgs: serverArgsOf(model, links, state),
    schedulerInfo: { status: statusOf(links, state), nodes: links.length },
    activeRequests: state.activeRequests,
    isPaused: state.paused,
    lastReceiveTimestamp: (state.lastRequestAtMs ?? 0) / 1000,
    uptimeSeconds: state.uptimeSeconds,
    sglangVersion: `shoal ${state.packageVersion}`,
    serverType: 'grpc',
    startTime: timestampFromMs(state.startedAtMs),
    maxTotalNumTokens: Math.min(poolTokens, MAX_INT32),
  });
}

function statusOf(links: readonly NodeLink[], { loading }: ServerState): string {
  if (links.length > 0) return 'ready';
  return loading ? 'loading weights' : 'no node';
}
