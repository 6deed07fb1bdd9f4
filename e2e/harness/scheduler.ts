import { randomUUID } from 'node:crypto';
import { create, type Message } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import type { SchedulerClient } from '../../src/cli/scheduler-client.ts';
import type { HostPort } from '../../src/cli/values.ts';
import {
  type GenerateComplete,
  type GenerateRequest,
  GenerateRequestSchema,
  type GenerateResponse,
  type GenerateStreamChunk,
  type SamplingParams,
  SamplingParamsSchema,
  SglangScheduler,
} from '../../src/contract/gen/sglang_scheduler_pb.ts';

export function schedulerClient({ host, port }: HostPort): SchedulerClient {
  return createClient(SglangScheduler, createGrpcTransport({ baseUrl: `http://${host}:${port}` }));
}

type Fields<M extends Message> = Partial<Omit<M, '$typeName' | '$unknown'>>;

/** A request as the gateways send it: defaults explicit, greedy, streaming. */
export function greedyRequest(
  inputIds: number[],
  sampling: Fields<SamplingParams>,
  more: Fields<GenerateRequest> = {},
): GenerateRequest {
  return create(GenerateRequestSchema, {
    requestId: `e2e-${randomUUID()}`,
    tokenized: { originalText: '', inputIds },
    samplingParams: create(SamplingParamsSchema, {
      topP: 1,
      topK: -1,
      repetitionPenalty: 1,
      n: 1,
      skipSpecialTokens: true,
      spacesBetweenSpecialTokens: true,
      ...sampling,
    }),
    logprobStartLen: -1,
    stream: true,
    ...more,
  });
}

/** One stream's messages, sample by sample. */
export interface Generated {
  readonly chunks: GenerateStreamChunk[][];
  readonly completes: GenerateComplete[];
  /** When each chunk of sample 0 came, in performance.now() milliseconds. */
  readonly times: number[];
}

/** Runs a request to its end; rejects with a ConnectError where it fails. */
export async function collect(
  client: SchedulerClient,
  request: GenerateRequest,
  options: { readonly signal?: AbortSignal; readonly onChunk?: (chunk: GenerateStreamChunk) => void } = {},
): Promise<Generated> {
  const result: Generated = { chunks: [], completes: [], times: [] };
  for await (const { response } of client.generate(request, options.signal ? { signal: options.signal } : {})) {
    if (response.case === 'chunk') {
      const { index } = response.value;
      const own = result.chunks[index] ?? [];
      result.chunks[index] = own;
      own.push(response.value);
      if (index === 0) result.times.push(performance.now());
      options.onChunk?.(response.value);
    } else if (response.case === 'complete') {
      result.completes[response.value.index] = response.value;
    }
  }
  return result;
}

/** One stream's messages as they came; rejects as `collect` does. */
export async function messagesOf(client: SchedulerClient, request: GenerateRequest): Promise<GenerateResponse[]> {
  const messages: GenerateResponse[] = [];
  for await (const message of client.generate(request)) messages.push(message);
  return messages;
}

/** The ids that a sample's chunks carried. */
export function idsOf(generated: Generated, index = 0): number[] {
  return (generated.chunks[index] ?? []).flatMap((chunk) => chunk.tokenIds);
}

/** The status that a request ended with, and when. */
export async function failureOf(promise: Promise<unknown>): Promise<{ code: string; message: string; at: number }> {
  try {
    await promise;
  } catch (error) {
    const { code, rawMessage } = ConnectError.from(error);
    return { code: Code[code], message: rawMessage, at: performance.now() };
  }
  throw new Error('the request did not fail');
}
