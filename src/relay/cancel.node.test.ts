import { create } from '@bufbuild/protobuf';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AbortRequestSchema, GetLoadsRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { collect } from './testing/grpc-client.ts';
import { RelayBench, requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate, abort, getLoads } = SglangScheduler.method;
const PROMPT = [1, 403, 407, 261, 378];

let bench: RelayBench;
beforeEach(async () => {
  bench = await RelayBench.start();
});
afterEach(() => bench.end());

const abortOf = (requestId: string) =>
  bench.client.unary(abort, create(AbortRequestSchema, { requestId, reason: 'Stream dropped' }));

test('abort ends a running stream with "abort" and the tokens so far; late and double ones do nothing', async () => {
  const node = await bench.node({ stepMs: 2 });
  const stream = bench.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 400 }, { requestId: 'long' }));
  const whole = collect(stream);
  await new Promise((resolve) => stream.once('data', resolve));
  expect(await abortOf('lon')).toMatchObject({ success: false, message: 'Request lon not found' });
  expect(await abortOf('')).toMatchObject({ success: false });
  expect(await abortOf('long')).toMatchObject({ success: true });
  expect((await abortOf('long')).success).toBe(false);
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  const chunks = messages.filter((message) => message.response.case === 'chunk');
  const last = messages.at(-1)?.response;
  if (last?.case !== 'complete') throw new Error('no complete');
  expect(last.value.finishReason).toBe('abort');
  expect(last.value.outputIds).toEqual(outputOf(PROMPT, chunks.length));
  await node.until(() => node.commandsOf('abort').length === 1);
  expect(await abortOf('long')).toMatchObject({ success: false, message: 'Request long not found' });
});

test('abort reaches a request that still waits', async () => {
  const whole = collect(bench.client.stream(generate, requestOf(PROMPT, {}, { requestId: 'waits' })));
  await expect.poll(async () => (await abortOf('waits')).success, { timeout: 5_000 }).toBe(true);
  const { messages } = await whole;
  expect(messages.map((message) => message.response.case)).toEqual(['complete']);
});

test('a client that leaves is an abort at the node', async () => {
  const node = await bench.node({ stepMs: 2 });
  const stream = bench.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 400 }, { requestId: 'gone' }));
  stream.on('error', () => {});
  await new Promise((resolve) => stream.once('data', resolve));
  stream.cancel();
  await node.until(() => node.commandsOf('abort').length === 1);
  expect((await abortOf('gone')).success).toBe(false);
  const loads = await bench.client.unary(getLoads, create(GetLoadsRequestSchema));
  expect(loads.loads[0]).toMatchObject({ numRunningReqs: 0, numWaitingReqs: 0 });
});

test('5,000 cancelled streams on one connection harm no other stream on it', async () => {
  const node = await bench.node({ stepMs: 5, maxRunning: 1_000_000 });
  const witness = bench.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 507 }));
  const whole = collect(witness, 60_000);
  await new Promise((resolve) => witness.once('data', resolve));
  for (let batch = 0; batch < 25; batch++) {
    await Promise.all(
      Array.from({ length: 200 }, async (_, at) => {
        const stream = bench.client.stream(generate, requestOf([1, 400 - at], { maxNewTokens: 500 }));
        const over = new Promise((resolve) => stream.once('error', resolve));
        await new Promise((resolve) => stream.once('data', resolve));
        stream.cancel();
        await over;
      }),
    );
  }
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  const ids = messages.flatMap(({ response }) => (response.case === 'chunk' ? response.value.tokenIds : []));
  expect(ids).toEqual(outputOf(PROMPT, 507));
  await node.until(() => node.commandsOf('abort').length === 5_000);
  expect(bench.client.channel.getChannel().getConnectivityState(false)).toBe(2);
}, 90_000);
