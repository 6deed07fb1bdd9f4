import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import {
  GetLoadsRequestSchema,
  GetModelInfoRequestSchema,
  GetServerInfoRequestSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, PROMPT, running } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { MODEL_DIR, requestOf } from './testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { method } = SglangScheduler;
const start = benchPerTest();
const FOLDER = MODEL_DIR.replace(/\/$/, '');

/** Without the name of its type, and of those in it. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (key, one) => (key === '$typeName' ? undefined : one)));
}

test('every field of GetModelInfo', async () => {
  const on = await start();
  const info = await on.client.unary(method.getModelInfo, create(GetModelInfoRequestSchema));
  expect(plain(info)).toEqual({
    modelPath: FOLDER,
    tokenizerPath: FOLDER,
    isGeneration: true,
    preferredSamplingParams: '',
    weightVersion: on.relay.model.digest.slice(0, 12),
    servedModelName: 'stories260K',
    maxContextLength: 512,
    vocabSize: 512,
    supportsVision: false,
    modelType: 'llama',
    eosTokenIds: [1, 2],
    padTokenId: 0,
    bosTokenId: 1,
    maxReqInputLen: 512,
    architectures: ['LlamaForCausalLM'],
    id2labelJson: '',
    numLabels: 0,
    defaultSamplingParamsJson: '',
  });
});

test('every field of GetServerInfo', async () => {
  const on = await start();
  const node = await on.node({ poolTokens: 1000, stepMs: 5 });
  const ask = () => on.client.unary(method.getServerInfo, create(GetServerInfoRequestSchema));
  expect((await ask()).lastReceiveTimestamp).toBe(0);
  const since = Date.now() / 1000;
  await running(on, 400);
  node.load = { paused: true };
  await node.report(true);
  const info = await ask();
  const { serverArgs, uptimeSeconds, lastReceiveTimestamp, startTime, ...rest } = info;
  expect(serverArgs).toMatchObject({ model_path: FOLDER, served_model_name: 'stories260K' });
  expect(uptimeSeconds).toBeGreaterThan(0);
  expect(Math.abs(lastReceiveTimestamp - since)).toBeLessThan(20);
  expect(Math.abs(Number(startTime?.seconds) - since)).toBeLessThan(30);
  // One that is held takes nothing new, and counts to no capacity.
  expect(rest).toMatchObject({
    schedulerInfo: { status: 'no node', nodes: 0 },
    activeRequests: 1,
    isPaused: true,
    sglangVersion: 'shoal 0.0.0-test',
    serverType: 'grpc',
    maxTotalNumTokens: 0,
  });
});

test('GetLoads tells of drafts where a node makes some', async () => {
  const on = await start();
  const node = await on.node({ poolTokens: 1000, maxRunning: 4, manual: true });
  const ask = async (include: string[]) => {
    const { loads } = await on.client.unary(method.getLoads, create(GetLoadsRequestSchema, { include }));
    return loads[0]?.speculative;
  };
  node.load = { usedTokens: 0 };
  await node.report(true);
  expect(await ask(['spec'])).toBeUndefined();
  node.load = { usedTokens: 0, drafts: 4n, draftedTokens: 20n, acceptedTokens: 10n };
  await node.report(true);
  expect(await ask([])).toMatchObject({ acceptLength: 3.5, acceptRate: 0.5 });
  expect(await ask(['spec'])).toMatchObject({ acceptLength: 3.5, acceptRate: 0.5 });
  expect(await ask(['core'])).toBeUndefined();
});

test('every field of GetLoads', async () => {
  const on = await start();
  const node = await on.node({ poolTokens: 1000, maxRunning: 4, manual: true });
  node.load = { usedTokens: 450, genThroughput: 12.5, weightBytes: 2n ** 30n, kvBytes: 2n ** 29n, cacheHitRate: 0.5 };
  await node.report(true);
  on.client.stream(method.generate, requestOf(PROMPT, { n: 2 })).on('error', () => {});
  await node.until(() => node.jobs.length === 1);
  const loads = await on.client.unary(method.getLoads, create(GetLoadsRequestSchema));
  expect(Math.abs(Date.parse(loads.timestamp) - Date.now())).toBeLessThan(30_000);
  expect(loads.loads[0]?.speculative).toBeUndefined();
  expect(loads.loads[0]?.lora).toBeUndefined();
  expect(plain({ ...loads, timestamp: '' })).toEqual({
    timestamp: '',
    version: 'shoal 0.0.0-test',
    dpRankCount: 1,
    loads: [
      {
        dpRank: 0,
        numRunningReqs: 2,
        numWaitingReqs: 0,
        numTotalReqs: 2,
        numUsedTokens: 450,
        maxTotalNumTokens: 1000,
        tokenUsage: 0.45,
        genThroughput: 12.5,
        cacheHitRate: 0.5,
        utilization: 0.5,
        maxRunningRequests: 4,
        numWaitingUncachedTokens: 0,
        memory: { weightGb: 1, kvCacheGb: 0.5, graphGb: 0, tokenCapacity: 1000 },
        disaggregation: {
          mode: 'null',
          prefillPreallocQueueReqs: 0,
          prefillInflightQueueReqs: 0,
          decodePreallocQueueReqs: 0,
          decodeTransferQueueReqs: 0,
          decodeRetractedQueueReqs: 0,
          kvTransferSpeedGbS: 0,
          kvTransferLatencyMs: 0,
        },
        queues: { waiting: 0, grammar: 0, paused: 0, retracted: 0 },
      },
    ],
    aggregate: {
      totalRunningReqs: 2,
      totalWaitingReqs: 0,
      totalReqs: 2,
      avgTokenUsage: 0.45,
      avgThroughput: 12.5,
      avgUtilization: 0.5,
    },
  });
});

test.each(['embed', 'loadLoRAAdapter', 'unloadLoRAAdapter', 'listLoadedLoRAAdapters'] as const)(
  'rpcs that are not served say so: %s',
  async (name) => {
    const on = await start();
    const error = await on.client.refusal(`/${SglangScheduler.typeName}/${method[name].name}`, Buffer.alloc(0));
    expect(error.code).toBe(status.UNIMPLEMENTED);
    expect(error.details).toContain(`${method[name].name} is not served`);
  },
);

test('a complete counts no drafts and no reasoning', async () => {
  const on = await start();
  await on.node();
  const { messages } = await collect(on.client.stream(method.generate, requestOf(PROMPT, { maxNewTokens: 1 })));
  const [chunk, complete] = messages.map(({ response }) => response.value);
  expect(chunk).toMatchObject({ reasoningTokens: 0 });
  expect(complete).toMatchObject({ reasoningTokens: 0, specAcceptedTokens: 0, specDraftTokens: 0 });
});

test('an error that follows a message says what the status says', async () => {
  const on = await start({ rejoinWaitMs: 0 });
  const node = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 400);
  await node.detach();
  const { messages, error } = await whole;
  const last = messages.at(-1)?.response.value;
  expect(last).toMatchObject({ message: error?.details, httpStatusCode: '503', details: '' });
});

test('a request’s timestamp is its transit, where two clocks can say so; log_metrics counts it either way', async () => {
  const on = await start();
  await on.node();
  const figures = async () => {
    const text = await (await fetch(`${on.webUrl}/metrics`)).text();
    const of = (name: string) => Number(new RegExp(`^${name}\\{.*\\} (.*)$`, 'm').exec(text)?.[1]);
    return {
      requests: of('sglang:num_requests_total'),
      transits: of('shoal:request_transit_seconds_count'),
      seconds: of('shoal:request_transit_seconds_sum'),
    };
  };
  const at = (seconds: number) =>
    ({ $typeName: 'google.protobuf.Timestamp', seconds: BigInt(Math.floor(seconds)), nanos: 500_000_000 }) as const;
  const now = Date.now() / 1000;
  for (const [timestamp, logMetrics] of [
    [at(now - 10), true],
    // Of another clock, or of none.
    [at(now + 100), false],
    [at(0), true],
    [at(-(2 ** 62)), false],
    [undefined, false],
  ] as const) {
    const request = requestOf(PROMPT, { maxNewTokens: 1 }, { logMetrics, ...(timestamp ? { timestamp } : {}) });
    expect((await collect(on.client.stream(method.generate, request))).error).toBeUndefined();
  }
  const { requests, transits, seconds } = await figures();
  expect([requests, transits]).toEqual([5, 1]);
  expect(seconds).toBeGreaterThan(9);
  expect(seconds).toBeLessThan(60);
});
