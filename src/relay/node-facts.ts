import { Code, ConnectError } from '@connectrpc/connect';
import { type AttachRequest, type Build, type KvType, Precision } from '../contract/gen/node_relay_pb.ts';

/** The version of the page ⇄ relay protocol that this relay speaks. */
export const PROTOCOL_VERSION = 1;

/** What a node said of itself when it attached. */
export interface NodeFacts {
  readonly nodeId: string;
  readonly build: Build | undefined;
  readonly precision: 'exact' | 'fast';
  readonly kvType: KvType;
  /** Tokens of one sequence. */
  readonly contextLength: number;
  /** KV slots, in tokens. */
  readonly poolTokens: number;
  /** Sequences at a time. */
  readonly maxRunning: number;
  readonly adapter: string;
}

const MAX_TOKENS = 2 ** 31 - 1;

/** Reads and checks an AttachRequest. Throws ConnectError: FAILED_PRECONDITION where relay and node don't match. */
export function readNodeFacts(request: AttachRequest, digest: string): NodeFacts {
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
  if (request.precision !== Precision.EXACT && request.precision !== Precision.FAST) {
    throw bad('precision must be PRECISION_EXACT or PRECISION_FAST.');
  }
  if (request.layers && request.layers.from !== 0) {
    throw new ConnectError('A node must hold all layers: layers.from must be 0.', Code.Unimplemented);
  }
  const { adapter } = request;
  return {
    nodeId: request.nodeId,
    build: request.build,
    precision: request.precision === Precision.FAST ? 'fast' : 'exact',
    kvType: request.kvType,
    contextLength: request.contextLength,
    poolTokens: request.poolTokens,
    maxRunning: request.maxRunning,
    adapter: adapter ? `${adapter.vendor} ${adapter.architecture}`.trim().slice(0, 80) : '',
  };
}

function bad(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}
