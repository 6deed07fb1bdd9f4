import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { create } from '@bufbuild/protobuf';
import { createHandlerContext } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import {
  Health,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as Status,
} from '../contract/gen/grpc/health_pb.ts';
import { healthService } from './health-service.ts';
import { Signal } from './signal.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const turn = () => new Promise((resolve) => setImmediate(resolve));

function open(source: { serving: boolean; changed: Signal }) {
  const left = new AbortController();
  const service = healthService({ serving: () => source.serving, changed: source.changed });
  const context = createHandlerContext({
    service: Health,
    method: Health.method.watch,
    protocolName: 'grpc',
    requestMethod: 'POST',
    url: 'http://relay/',
    requestSignal: left.signal,
  });
  const stream = service.watch(create(HealthCheckRequestSchema), context) as AsyncIterable<HealthCheckResponse>;
  return { left, context, stream: stream[Symbol.asyncIterator]() };
}

test('a watch keeps nothing of the changes that it has seen', async () => {
  const source = { serving: false, changed: new Signal() };
  const { left, context, stream } = open(source);
  expect((await stream.next()).value?.status).toBe(Status.NOT_SERVING);
  const next = stream.next();
  const pass = async (changes: number) => {
    for (let change = 0; change < changes; change++) {
      source.changed.notify();
      await turn();
    }
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const before = await pass(2_000);
  const after = await pass(20_000);
  // A few hundred bytes a change would be some MiB.
  expect(after - before).toBeLessThan(2 * 2 ** 20);
  expect(getEventListeners(context.signal, 'abort').length).toBeLessThan(4);
  expect(source.changed.waiting).toBe(1);
  source.serving = true;
  source.changed.notify();
  expect((await next).value?.status).toBe(Status.SERVING);
  left.abort();
});

test('a watch that was left is forgotten at once, not at the next change', async () => {
  const source = { serving: false, changed: new Signal() };
  const watches = Array.from({ length: 100 }, () => open(source));
  const ends = [];
  for (const { stream } of watches) {
    await stream.next();
    ends.push(stream.next());
  }
  await turn();
  expect(source.changed.waiting).toBe(100);
  for (const { left } of watches) left.abort();
  expect((await Promise.all(ends)).every(({ done }) => done)).toBe(true);
  expect(source.changed.waiting).toBe(0);
});
