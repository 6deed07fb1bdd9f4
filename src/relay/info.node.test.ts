import { create, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../contract/gen/grpc/health_pb.ts';
import { ServerReflection } from '../contract/gen/grpc/reflection_v1_pb.ts';
import { ServerReflection as ServerReflectionAlpha } from '../contract/gen/grpc/reflection_v1alpha_pb.ts';
import {
  GetLoadsRequestSchema,
  GetModelInfoRequestSchema,
  GetServerInfoRequestSchema,
  HealthCheckRequestSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { SubscribeKvEventsRequestSchema } from '../contract/gen/smg_common_pb.ts';
import { PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { MODEL_DIR, RelayBench, requestOf } from './testing/relay-bench.ts';
import type { ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { method } = SglangScheduler;

let bench: RelayBench;
beforeAll(async () => {
  bench = await RelayBench.start();
});
afterAll(() => bench.end());

const transport = () => createGrpcTransport({ baseUrl: `http://127.0.0.1:${bench.relay.grpcPort}` });

test('health follows the nodes, in both services, and Watch tells of it', async () => {
  const healthCheck = () => bench.client.unary(method.healthCheck, create(HealthCheckRequestSchema));
  const health = createClient(Health, transport());
  expect(await healthCheck()).toMatchObject({ healthy: false, message: expect.stringContaining('No node is serving') });
  const left = new AbortController();
  const watch = health.watch({ service: SglangScheduler.typeName }, { signal: left.signal })[Symbol.asyncIterator]();
  expect((await watch.next()).value?.status).toBe(Serving.NOT_SERVING);
  const node = await bench.node();
  expect((await watch.next()).value?.status).toBe(Serving.SERVING);
  expect((await healthCheck()).healthy).toBe(true);
  expect((await health.check({ service: '' })).status).toBe(Serving.SERVING);
  await expect(health.check({ service: 'other' })).rejects.toMatchObject({ code: status.NOT_FOUND });
  await node.detach();
  expect((await watch.next()).value?.status).toBe(Serving.NOT_SERVING);
  left.abort();
  expect((await healthCheck()).healthy).toBe(false);
});

test('model and server info name the model as the gateway needs it', async () => {
  const folder = MODEL_DIR.replace(/\/$/, '');
  const info = await bench.client.unary(method.getModelInfo, create(GetModelInfoRequestSchema));
  expect(info).toMatchObject({
    servedModelName: 'stories260K',
    tokenizerPath: folder,
    modelType: 'llama',
    architectures: ['LlamaForCausalLM'],
    isGeneration: true,
    vocabSize: 512,
    maxContextLength: 512,
    eosTokenIds: [1, 2],
    bosTokenId: 1,
  });
  const node = await bench.node({ poolTokens: 4096, maxRunning: 8 });
  const server = await bench.client.unary(method.getServerInfo, create(GetServerInfoRequestSchema));
  expect(server.serverArgs).toMatchObject({
    model_path: folder,
    served_model_name: 'stories260K',
    tokenizer_path: folder,
    tp_size: 1,
    dp_size: 1,
    pp_size: 1,
    context_length: 512,
    max_total_tokens: 4096,
    max_running_requests: 8,
    disaggregation_mode: 'null',
    is_embedding: false,
    schedule_policy: 'lpm',
    vocab_size: 512,
  });
  expect(server).toMatchObject({ serverType: 'grpc', maxTotalNumTokens: 4096, activeRequests: 0 });
  await node.detach();
});

test('loads are what the nodes told; what is unknown is absent', async () => {
  const loads = (request: { dpRank?: number; include?: string[] }) =>
    bench.client.unary(method.getLoads, create(GetLoadsRequestSchema, request));
  expect(await loads({})).toMatchObject({ dpRankCount: 0, loads: [] });
  const node = await bench.node({ poolTokens: 1000, maxRunning: 4 });
  expect((await loads({})).loads[0]).toMatchObject({ dpRank: 0, maxTotalNumTokens: 1000, maxRunningRequests: 4 });
  expect((await loads({})).loads[0]?.memory).toBeUndefined();
  node.load = { usedTokens: 450, genThroughput: 12.5, weightBytes: 2n ** 30n, kvBytes: 2n ** 29n, cacheHitRate: 0.5 };
  await node.report(true);
  const load = (await loads({})).loads[0];
  expect(load).toMatchObject({
    numUsedTokens: 450,
    tokenUsage: 0.45,
    genThroughput: 12.5,
    cacheHitRate: 0.5,
    utilization: 0.5,
  });
  expect(load).toMatchObject({
    memory: { weightGb: 1, kvCacheGb: 0.5 },
    disaggregation: { mode: 'null' },
    queues: { waiting: 0 },
  });
  expect(load?.speculative).toBeUndefined();
  expect((await loads({ include: ['core'] })).loads[0]?.memory).toBeUndefined();
  expect((await loads({ dpRank: 7 })).loads).toEqual([]);
  await expect(loads({ include: ['everything'] })).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: expect.stringContaining('core, memory, spec, lora, disagg, queues, all'),
  });
  await node.detach();
});

test('what waits inside a node runs for the relay, and is counted once', async () => {
  const loads = async () => (await bench.client.unary(method.getLoads, create(GetLoadsRequestSchema))).loads[0];
  const node = await bench.node({ manual: true, maxRunning: 3 });
  // The first two go to the node, one of two samples; the third waits at the relay with five tokens.
  const streams = [{ n: 2 }, {}, {}].map((sampling) =>
    bench.client.stream(method.generate, requestOf(PROMPT, sampling)),
  );
  for (const stream of streams) stream.on('error', () => {});
  await node.until(() => node.jobs.length === 2);
  await expect.poll(async () => (await loads())?.numWaitingReqs, { timeout: 5_000 }).toBe(1);
  expect(await loads()).toMatchObject({ numWaitingUncachedTokens: 5, queues: { retracted: 0 } });
  node.load = { running: 1, waiting: 2, retracted: 2, waitingUncachedTokens: 40, cachedTokens: 64 };
  await node.report(true);
  expect(await loads()).toMatchObject({
    numRunningReqs: 3,
    numWaitingReqs: 1,
    numTotalReqs: 4,
    numWaitingUncachedTokens: 45,
    queues: { waiting: 1, retracted: 2 },
  });
  // What ended since the node told of it isn't retracted any more.
  streams[2]?.cancel();
  streams[0]?.cancel();
  await expect.poll(async () => (await loads())?.numTotalReqs, { timeout: 5_000 }).toBe(1);
  expect((await loads())?.queues?.retracted).toBe(1);
  // As much as the field holds.
  node.load = { waiting: 1, waitingUncachedTokens: 2 ** 32 - 1 };
  await node.report(true);
  expect((await loads())?.numWaitingUncachedTokens).toBe(2 ** 31 - 1);
  streams[1]?.cancel();
  await node.detach();
});

test('/metrics has a sample of what a node told, and none of what it did not', async () => {
  const node = await bench.node({ poolTokens: 1000 });
  const told = async () => {
    const text = await (await fetch(`${bench.webUrl}/metrics`)).text();
    const samples = text.split('\n').filter((line) => line.includes('{dp_rank="0",'));
    return new Map(samples.map((line) => line.split(/\{.*\} /) as [string, string]));
  };
  const unknown = ['num_used_tokens', 'token_usage', 'gen_throughput', 'cache_hit_rate'].map(
    (name) => `sglang:${name}`,
  );
  unknown.push('shoal:gpu_bytes', 'shoal:heap_bytes', 'shoal:hidden');
  unknown.push('sglang:num_retracted_reqs', 'shoal:prefix_cache_tokens', 'shoal:waiting_uncached_tokens');
  const before = await told();
  for (const name of unknown) expect(before.get(name)).toBeUndefined();
  expect(before.get('sglang:max_total_num_tokens')).toBe('1000');
  // A load that says nothing is still nothing.
  node.load = {};
  await node.report(true);
  const silent = await told();
  for (const name of unknown) expect(silent.get(name)).toBeUndefined();
  node.load = { usedTokens: 0, genThroughput: 0, gpuBytes: 7n, hidden: true, retracted: 0, cachedTokens: 48 };
  await node.report(true);
  const after = await told();
  expect(unknown.map((name) => after.get(name))).toEqual([
    ...['0', '0', '0', undefined],
    ...['7', undefined, '1'],
    ...['0', '48', undefined],
  ]);
  await node.detach();
});

test('figures that no field holds harm nobody', async () => {
  const pool = 2 ** 31 - 1;
  const nodes = [await bench.node({ poolTokens: pool }), await bench.node({ poolTokens: pool })];
  const server = await bench.client.unary(method.getServerInfo, create(GetServerInfoRequestSchema));
  expect(server.maxTotalNumTokens).toBe(pool);
  const [first, second] = nodes as [ScriptedNode, ScriptedNode];
  first.load = { usedTokens: 2 ** 32 - 1 };
  await first.report(true);
  expect(first.reportError?.code).toBe(Code.InvalidArgument);
  second.load = { genThroughput: Number.NaN };
  await second.report(true);
  expect(second.reportError?.code).toBe(Code.InvalidArgument);
  expect((await bench.client.unary(method.getLoads, create(GetLoadsRequestSchema))).loads).toEqual([]);
});

test.each([ServerReflection, ServerReflectionAlpha])(
  'reflection gives services and files: $typeName',
  async (service) => {
    const client = createClient(service as typeof ServerReflection, transport());
    async function* ask() {
      yield { messageRequest: { case: 'listServices' as const, value: '' } };
      yield {
        messageRequest: { case: 'fileContainingSymbol' as const, value: 'sglang.grpc.scheduler.SglangScheduler' },
      };
      yield { messageRequest: { case: 'fileByFilename' as const, value: 'nothing.proto' } };
    }
    const answers = [];
    for await (const answer of client.serverReflectionInfo(ask())) answers.push(answer.messageResponse);
    const [services, files, missing] = answers;
    if (services?.case !== 'listServicesResponse' || files?.case !== 'fileDescriptorResponse')
      throw new Error('no answer');
    expect(services.value.service.map(({ name }) => name)).toContain('sglang.grpc.scheduler.SglangScheduler');
    const names = files.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name);
    expect(names).toEqual(
      expect.arrayContaining(['sglang_scheduler.proto', 'smg_common.proto', 'google/protobuf/struct.proto']),
    );
    expect(missing).toMatchObject({ case: 'errorResponse', value: { errorCode: status.NOT_FOUND } });
  },
);

test('closing ends every stream, and soon', async () => {
  const own = await RelayBench.start();
  const silent = own.client.stream(method.subscribeKvEvents, create(SubscribeKvEventsRequestSchema));
  const whole = collect(silent);
  await new Promise((resolve) => silent.once('metadata', resolve));
  const node = await own.node();
  const started = performance.now();
  await own.relay.close();
  expect(performance.now() - started).toBeLessThan(3_000);
  await whole;
  await node.until(() => node.streamError !== undefined);
  await own.end();
});
