import { ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-node';
import { Operator } from '../../contract/gen/operator_pb.ts';
import type { RelayBench } from './relay-bench.ts';

export function operatorOf(on: RelayBench) {
  return createClient(Operator, createGrpcWebTransport({ baseUrl: on.webUrl, httpVersion: '1.1' }));
}

export function updateWeights(on: RelayBench, diskPath: string, signal?: AbortSignal) {
  return operatorOf(on).updateWeights({ source: { case: 'diskPath', value: diskPath } }, signal ? { signal } : {});
}

/** What a call was refused with; rejects where it wasn't. */
export function refusal(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => Promise.reject(new Error('the call went well')),
    (error: unknown) => ConnectError.from(error),
  );
}
