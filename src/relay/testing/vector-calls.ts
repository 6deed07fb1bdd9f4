import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { ServiceError } from '@grpc/grpc-js';
import { EmbedRequestSchema, type EmbedResponse, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import type { RelayBench } from './relay-bench.ts';

/** Ids of an input. */
export const IDS = [2, 9, 100, 3];

/** A scripted node of the tiny encoders. */
export const EMBEDDING_NODE = { layers: 3, contextLength: 48, vectorSize: 48 };

export type EmbedInit = MessageInitShape<typeof EmbedRequestSchema>;

export function askVector(on: RelayBench, init: EmbedInit = {}): Promise<EmbedResponse> {
  const request = create(EmbedRequestSchema, { tokenized: { inputIds: IDS }, ...(init as object) });
  return on.client.unary(SglangScheduler.method.embed, request);
}

/** The error of such a call; rejects where it goes well. */
export function vectorRefusal(on: RelayBench, init: EmbedInit = {}): Promise<ServiceError> {
  return askVector(on, init).then(
    () => Promise.reject(new Error('the call went well')),
    (error: ServiceError) => error,
  );
}
