import { create } from '@bufbuild/protobuf';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { GetServerInfoRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { FlushCacheRequestSchema } from '../contract/gen/smg_common_pb.ts';
import { benchPerTest, running } from './testing/bench-per-test.ts';
import type { RelayBench } from './testing/relay-bench.ts';
import type { ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { flushCache, getServerInfo } = SglangScheduler.method;
const start = benchPerTest();
const flush = (on: RelayBench, timeoutS = 0) =>
  on.client.unary(flushCache, create(FlushCacheRequestSchema, { timeoutS }));
const asked = (node: ScriptedNode) => node.until(() => node.commandsOf('flushCache').length === 1);

test('every node that serves is asked, and the answer says how much was freed', async () => {
  const on = await start();
  await on.node({ freedTokens: 160 });
  await on.node({ freedTokens: 32 });
  expect(await flush(on)).toMatchObject({ success: true, message: 'Freed 192 tokens at 2 nodes.' });
});

test('without a node nothing is flushed, however long it might wait', async () => {
  const on = await start();
  expect(await flush(on, 30)).toMatchObject({ success: false, message: 'No node is serving.' });
});

test.each([
  [-0.5, '-0.5'],
  [Number.NaN, 'NaN'],
  [Number.POSITIVE_INFINITY, 'Infinity'],
])('a timeout of %s is refused by name', async (timeoutS, shown) => {
  const on = await start();
  await expect(flush(on, timeoutS)).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: `timeout_s must be finite and >= 0, got ${shown}.`,
  });
});

test('a node lost meanwhile did not answer', async () => {
  const on = await start();
  const lost = await on.node();
  await on.node({ freedTokens: 160 });
  const answer = flush(on);
  await asked(lost);
  await lost.detach();
  const message = 'Freed 160 tokens at 1 of 2 nodes. 1 node went before answering.';
  expect(await answer).toMatchObject({ success: false, message });
});

test('a node whose stream drops answers once it is back', async () => {
  const on = await start();
  const node = await on.node();
  const answer = flush(on);
  await asked(node);
  node.dropStream();
  await node.reconnect();
  const flushId = node.commandsOf('flushCache')[0]?.flushId ?? 0n;
  await node.tell({ event: { case: 'cacheFlushed', value: { flushId, freedTokens: 16 } } });
  expect(await answer).toMatchObject({ success: true, message: 'Freed 16 tokens at 1 node.' });
});

test('what runs keeps its prefix, and the answer says so', async () => {
  const on = await start();
  const node = await on.node({ freedTokens: 48, stepMs: 5 });
  node.load = { cachedTokens: 96 };
  await running(on, 400);
  expect(await flush(on)).toMatchObject({
    success: true,
    message: 'Freed 48 tokens at 1 node. 1 request still ran and keeps its prefix: 96 tokens stay cached.',
  });
  node.load = undefined;
  expect(await flush(on, 0.1)).toMatchObject({
    success: true,
    message: 'Freed 48 tokens at 1 node. 1 request still ran, after 0.1 s, and keeps its prefix.',
  });
});

test('with a timeout it waits for what runs and what waits', async () => {
  const on = await start();
  const node = await on.node({ freedTokens: 48, maxRunning: 1, stepMs: 2 });
  const { whole } = await running(on, 40);
  const next = running(on, 20);
  const info = () => on.client.unary(getServerInfo, create(GetServerInfoRequestSchema));
  await expect.poll(async () => (await info()).activeRequests, { timeout: 5_000 }).toBe(2);
  const answer = flush(on, 20);
  await whole;
  await (await next).whole;
  expect(await answer).toMatchObject({ success: true, message: 'Freed 48 tokens at 1 node.' });
  const order = node.commands.map(({ command }) => command.case);
  expect(order.indexOf('flushCache')).toBeGreaterThan(order.lastIndexOf('generate'));
});

test('an answer that nobody waits for any more is no lie', async () => {
  const on = await start();
  const node = await on.node();
  const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${on.relay.grpcPort}` });
  const impatient = createClient(SglangScheduler, transport).flushCache({}, { timeoutMs: 200 });
  await expect(impatient).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  await asked(node);
  await node.tell({
    event: { case: 'cacheFlushed', value: { flushId: node.commandsOf('flushCache')[0]?.flushId ?? 0n } },
  });
  expect(node.reportError).toBeUndefined();
});
