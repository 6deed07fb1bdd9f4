import { expect } from 'vitest';
import {
  type GenerateComplete,
  type GenerateResponse,
  type GenerateStreamChunk,
  SglangScheduler,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import { collect } from './grpc-client.ts';
import { type RelayBench, requestOf } from './relay-bench.ts';

export function chunksOf(messages: readonly GenerateResponse[]): GenerateStreamChunk[] {
  return messages.flatMap(({ response }) => (response.case === 'chunk' ? [response.value] : []));
}

export function completesOf(messages: readonly GenerateResponse[]): GenerateComplete[] {
  return messages.flatMap(({ response }) => (response.case === 'complete' ? [response.value] : []));
}

export function idsOfChunks(chunks: readonly GenerateStreamChunk[]): number[] {
  return chunks.flatMap(({ tokenIds }) => tokenIds);
}

/** The whole answer to a request, which ends with OK. */
export async function answer(on: RelayBench, ...request: Parameters<typeof requestOf>) {
  return answerWithin(undefined, on, ...request);
}

/** The same for what is so much that it takes long: `ms` bounds it. */
export async function answerWithin(ms: number | undefined, on: RelayBench, ...request: Parameters<typeof requestOf>) {
  const stream = on.client.stream(SglangScheduler.method.generate, requestOf(...request));
  const { messages, error } = await collect(stream, ms);
  expect(error).toBeUndefined();
  return { messages, chunks: chunksOf(messages), completes: completesOf(messages) };
}
