import { Code, ConnectError } from '@connectrpc/connect';
import { type AttachRequest, type Build, KvType, Precision } from '../contract/gen/node_relay_pb.ts';

/** The version of the page ⇄ relay protocol that this relay speaks. */
export const PROTOCOL_VERSION = 1;

/** What a node said of itself when it attached. */
export interface NodeFacts {
  readonly nodeId: string;
  /** Of the model that it holds: what was served then. */
  readonly modelDigest: string;
  readonly build: Build | undefined;
  readonly precision: 'exact' | 'fast';
  readonly kvType: 'f32' | 'f16';
  /** Tokens of one sequence. */
  readonly contextLength: number;
  /** KV slots, in tokens. */
  readonly poolTokens: number;
  /** Sequences at a time. */
  readonly maxRunning: number;
  readonly adapter: string;
  /** A software adapter. */
  readonly software: boolean;
}

const MAX_TOKENS = 2 ** 31 - 1;

/** What a node must hold. */
export interface WantedModel {
  readonly digest: string;
  /** Undefined where the model's files don't say. */
  readonly layers: number | undefined;
}

const PRECISIONS = { [Precision.EXACT]: 'exact', [Precision.FAST]: 'fast' } as const;
const KV_TYPES = { [KvType.F32]: 'f32', [KvType.F16]: 'f16' } as const;

/** Reads and checks an AttachRequest. Throws ConnectError: FAILED_PRECONDITION where relay and node don't match. */
export function readNodeFacts(request: AttachRequest, { digest, layers }: WantedModel): NodeFacts {
  if (request.protocolVersion !== PROTOCOL_VERSION) {
    throw new ConnectError(
      `The relay speaks version ${PROTOCOL_VERSION} of the node protocol, the node version ${request.protocolVersion}.`,
      Code.FailedPrecondition,
    );
  }
  if (request.modelDigest !== digest) {
    const shown = /^[0-9a-f]{64}$/.test(request.modelDigest) ? request.modelDigest : '(not a SHA-256)';
    throw new ConnectError(`The relay serves model ${digest}, the node holds ${shown}.`, Code.FailedPrecondition);
  }
  if (!/^[A-Za-z0-9_-]{8,64}$/.test(request.nodeId)) throw bad('node_id must match [A-Za-z0-9_-]{8,64}.');
  for (const [field, value] of [
    ['context_length', request.contextLength],
    ['pool_tokens', request.poolTokens],
    ['max_running', request.maxRunning],
  ] as const) {
    if (value < 1 || value > MAX_TOKENS) throw bad(`${field} must be in [1, ${MAX_TOKENS}], got ${value}.`);
  }
  const precision = PRECISIONS[request.precision as keyof typeof PRECISIONS];
  if (!precision) throw bad('precision must be PRECISION_EXACT or PRECISION_FAST.');
  const kvType = KV_TYPES[request.kvType as keyof typeof KV_TYPES];
  if (!kvType) throw bad('kv_type must be KV_TYPE_F32 or KV_TYPE_F16.');
  checkLayers(request, layers);
  const { adapter } = request;
  return {
    nodeId: request.nodeId,
    modelDigest: digest,
    build: request.build,
    precision,
    kvType,
    contextLength: request.contextLength,
    poolTokens: request.poolTokens,
    maxRunning: request.maxRunning,
    adapter: adapter ? `${adapter.vendor} ${adapter.architecture}`.trim().slice(0, 80) : '',
    software: adapter?.fallback === true,
  };
}

/** A part of the model is a node of a later version. */
function checkLayers({ layers }: AttachRequest, count: number | undefined): void {
  if (!layers || layers.to <= layers.from) throw bad('layers must be set, and hold a layer.');
  if (layers.from === 0 && (count === undefined || layers.to === count)) return;
  if (count !== undefined && layers.to > count) {
    throw bad(`layers must be those of the model, [0, ${count}), got [${layers.from}, ${layers.to}).`);
  }
  const all = count === undefined ? 'from 0 on' : `[0, ${count})`;
  throw new ConnectError(
    `A node must hold all layers, ${all}: layers is [${layers.from}, ${layers.to}).`,
    Code.Unimplemented,
  );
}

function bad(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}
