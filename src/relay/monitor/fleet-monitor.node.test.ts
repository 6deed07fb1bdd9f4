import { setTimeout as sleep } from 'node:timers/promises';
import { create, toJsonString } from '@bufbuild/protobuf';
import { createClient, createRouterTransport } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-node';
import { expect, test, vi } from 'vitest';
import {
  FleetMonitor,
  ListRequestsResponseSchema,
  Node_State,
  type RequestTimeline,
} from '../../contract/gen/fleet_monitor_pb.ts';
import { AbortRequestSchema, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { JobTable } from '../job-table.ts';
import { benchPerTest, PROMPT } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { type RelayBench, requestOf } from '../testing/relay-bench.ts';
import { FleetHistory } from './fleet-history.ts';
import { fleetMonitorService, type MonitorParts } from './fleet-monitor-service.ts';
import { RecentRequests } from './recent-requests.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();

function monitorOf(on: RelayBench) {
  return createClient(FleetMonitor, createGrpcWebTransport({ baseUrl: on.webUrl, httpVersion: '1.1' }));
}

const ask = (on: RelayBench, maxNewTokens: number, rest: Parameters<typeof requestOf>[2] = {}, stop: string[] = []) =>
  collect(on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens, stop }, rest)));

/** Asks until it holds. */
async function untilRequests(on: RelayBench, holds: (all: RequestTimeline[]) => boolean): Promise<RequestTimeline[]> {
  const monitor = monitorOf(on);
  for (const late = performance.now() + 15_000; ; await sleep(20)) {
    const { requests } = await monitor.listRequests({});
    if (holds(requests)) return requests;
    if (performance.now() > late) throw new Error(`not within 15 s: ${JSON.stringify(requests, jsonable)}`);
  }
}

const jsonable = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);

test('nodes are told with what they said of themselves and what was counted of them', async () => {
  const on = await start();
  const adapter = { $typeName: 'shoal.relay.v1.AdapterInfo', vendor: 'google', architecture: 'swiftshader' } as const;
  const told = await on.node({ attach: { adapter: { ...adapter, description: '', fallback: true } } });
  told.load = { usedTokens: 64, cacheHitRate: 0, hidden: true, gpuBytes: 5_000_000_000n };
  const silent = await on.node();
  await told.report(true);
  await ask(on, 20, { dataParallelRank: 0 });
  silent.dropStream();
  const monitor = monitorOf(on);
  await vi.waitFor(async () => {
    const { nodes } = await monitor.listNodes({});
    expect(nodes[1]?.state).toBe(Node_State.OUT_OF_REACH);
  });
  const { nodes, nowMs } = await monitor.listNodes({});
  expect(nodes[0]).toMatchObject({
    ...{ rank: 0, state: Node_State.SERVING, adapter: 'google swiftshader', software: true, tokens: 20n },
    ...{ precision: 'exact', kvType: 'f32', contextLength: 512, poolTokens: 4096, maxRunning: 64, running: 0 },
    ...{ usedTokens: 64, cacheHitRate: 0, hidden: true, gpuBytes: 5_000_000_000n, losses: 0, trusted: false },
  });
  expect(nodes[0]!.attachedAtMs).toBeLessThan(nodes[0]!.heardAtMs);
  expect(nodes[0]!.heardAtMs).toBeLessThanOrEqual(nowMs);
  // It told nothing: that is no zero.
  const { usedTokens, cacheHitRate, genThroughput, hidden, gpuBytes, sampleTokensPerSecond } = nodes[1]!;
  expect([usedTokens, cacheHitRate, genThroughput, hidden, gpuBytes, sampleTokensPerSecond]).toEqual(
    Array.from({ length: 6 }),
  );
});

test('a request’s line: when it came, where it ran, its first token, and its end', async () => {
  const on = await start();
  const first = await on.node({ manual: true });
  const answer = ask(on, 8, { requestId: 'a-clients-id' }, ['a private text']);
  await first.until(() => first.jobs.length === 1);
  const [open] = await untilRequests(on, (all) => all.length === 1);
  expect(open).toMatchObject({ requestId: 'a-clients-id', outcome: '', given: 1, promptTokens: PROMPT.length });
  expect(open!.endedAtMs).toBeUndefined();
  expect(open!.firstTokenAtMs).toBeUndefined();
  const second = await on.node();
  await first.detach();
  await answer;
  const [line, ...others] = await untilRequests(on, ([one]) => one?.endedAtMs !== undefined);
  expect(others).toEqual([]);
  expect(line).toMatchObject({ outcome: 'complete', samples: 1, outputTokens: 8, given: 2, cachedTokens: 0 });
  expect(line!.stays.map(({ rank }) => rank)).toEqual([0, second.welcome!.rank]);
  const times = [line!.arrivedAtMs, ...line!.stays.map(({ atMs }) => atMs), line!.firstTokenAtMs!, line!.endedAtMs!];
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  const answered = toJsonString(ListRequestsResponseSchema, await monitorOf(on).listRequests({}));
  expect(answered).not.toContain('private');
});

test('as many requests as are asked for, open ones first, and never more than 100', async () => {
  const on = await start();
  await on.node();
  await Promise.all(Array.from({ length: 100 }, () => ask(on, 1)));
  for (let at = 0; at < 2; at++) await ask(on, 1);
  const held = await on.node({ manual: true });
  void ask(on, 8, { dataParallelRank: held.welcome!.rank }).catch(() => {});
  await held.until(() => held.jobs.length === 1);
  const monitor = monitorOf(on);
  const few = await monitor.listRequests({ limit: 3 });
  expect(few.open).toBe(1);
  expect(few.requests.map(({ jobId }) => jobId)).toEqual([103n, 102n, 101n]);
  expect(few.requests.map(({ outcome }) => outcome)).toEqual(['', 'complete', 'complete']);
  expect((await monitor.listRequests({ limit: 5_000 })).requests.length).toBe(100);
});

test('how a request ended: by its client’s abort, its leaving, or a status', async () => {
  const on = await start({ startWaitMs: 50 });
  await ask(on, 8).catch(() => {});
  const node = await on.node({ manual: true });
  const aborted = ask(on, 8, { requestId: 'one' });
  await node.until(() => node.jobs.length === 1);
  await on.client.unary(SglangScheduler.method.abort, create(AbortRequestSchema, { requestId: 'one' }));
  await aborted;
  const left = on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens: 8 }));
  const over = collect(left).catch(() => {});
  await node.until(() => node.jobs.length === 2);
  left.cancel();
  await over;
  const all = await untilRequests(on, (found) => found.length === 3 && found[0]!.outcome !== '');
  expect(all.map(({ outcome }) => outcome)).toEqual(['left', 'aborted', 'Unavailable']);
});

test('totals and latencies are told at once', async () => {
  const on = await start();
  await on.node();
  await ask(on, 6);
  const monitor = monitorOf(on);
  const at = await monitor.getHistory({});
  expect(at).toMatchObject({ model: 'stories260K', version: '0.0.0-test', intervalMs: 5_000 });
  expect(at.totals).toMatchObject({ requests: 1n, tokens: 6n, aborted: 0n, failovers: 0n });
  expect(at.latencies?.whole?.count).toBe(1);
  expect(at.latencies?.betweenTokens?.count).toBe(5);
});

test('history is told once: a caller gets the points after those that it has', async () => {
  const history = new FleetHistory({ serving: () => [], waiting: () => 0 });
  const fleet = { relayEpoch: 7n, links: [] } as unknown as MonitorParts['fleet'];
  const rest = { table: new JobTable(), recent: new RecentRequests(), modelName: '', packageVersion: '' };
  const service = fleetMonitorService({ fleet, history, ...rest });
  const monitor = createClient(
    FleetMonitor,
    createRouterTransport((router) => router.service(FleetMonitor, service)),
  );
  const numbers = async (relayEpoch: bigint, after: number) =>
    (await monitor.getHistory({ relayEpoch, after })).points.map(({ number }) => number);
  expect(await numbers(0n, 0)).toEqual([]);
  for (let at = 0; at < 3; at++) history.addPoint();
  expect(await numbers(7n, 0)).toEqual([1, 2, 3]);
  expect(await numbers(7n, 2)).toEqual([3]);
  expect(await numbers(7n, 3)).toEqual([]);
  // What it has is of another start of the relay.
  expect(await numbers(8n, 3)).toEqual([1, 2, 3]);
});
