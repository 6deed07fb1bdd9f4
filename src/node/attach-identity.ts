import { create } from '@bufbuild/protobuf';
import { type AttachRequest, AttachRequestSchema, KvType, Precision } from '../contract/gen/node_relay_pb.ts';
import type { ServedModel } from './load-served.ts';
import type { JoinRequest } from './messages.ts';

const PROTOCOL_VERSION = 1;

/** What a node says of itself when it attaches. */
export function attachIdentity(
  { build, nodeId }: JoinRequest,
  modelDigest: string,
  loaded: ServedModel,
): AttachRequest {
  const { adapter, features, contextLength, poolTokens, maxRunning, layers, kernels } = loaded;
  return create(AttachRequestSchema, {
    ...{ protocolVersion: PROTOCOL_VERSION, build, nodeId, modelDigest },
    precision: kernels.precision === 'fast' ? Precision.FAST : Precision.EXACT,
    kvType: KvType.F32,
    ...{ contextLength, poolTokens, maxRunning },
    features: [...features],
    layers: { from: 0, to: layers },
    adapter,
  });
}
