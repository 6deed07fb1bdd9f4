import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { HealthCheckRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { collect } from './testing/grpc-client.ts';
import { RelayBench, requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

test('a relay that closes takes nothing new, lets what runs end, and then ends the rest with UNAVAILABLE', async () => {
  const bench = await RelayBench.start({ closeGraceMs: 800 });
  const { generate, healthCheck } = SglangScheduler.method;
  const node = await bench.node({ stepMs: 20 });
  const short = collect(bench.client.stream(generate, requestOf([7], { maxNewTokens: 10 })));
  const long = collect(bench.client.stream(generate, requestOf([8], { maxNewTokens: 400 })));
  await node.until(() => node.jobs.length === 2);

  const closed = bench.relay.close();
  const health = await bench.client.unary(healthCheck, create(HealthCheckRequestSchema));
  expect(health).toMatchObject({ healthy: false, message: 'The relay is closing.' });
  expect((await fetch(`${bench.webUrl}/healthz`)).status).toBe(503);
  const late = await collect(bench.client.stream(generate, requestOf([9], { maxNewTokens: 1 })));
  expect(late).toMatchObject({ messages: [], error: { code: status.UNAVAILABLE } });

  const { messages, error } = await short;
  expect(error).toBeUndefined();
  expect(messages.at(-1)?.response).toMatchObject({ case: 'complete', value: { outputIds: outputOf([7], 10) } });
  const rest = await long;
  expect(rest.messages.length).toBeGreaterThan(1);
  expect(rest.error?.code).toBe(status.UNAVAILABLE);
  await closed;
  await bench.end();
});
