import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { GetLoadsRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, idsOf, PROMPT, running } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { type RelayBench, requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';
import type { ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate, getLoads } = SglangScheduler.method;
const start = benchPerTest();

/** 20 blocks of 16 tokens. */
const LONG = Array.from({ length: 320 }, (_, at) => (7 * at) % 500);
const stored = (blocks: number[], tokenIds: number[], parent?: number) => ({
  event: { case: 'cacheStored' as const, value: { blocks, tokenIds, ...(parent === undefined ? {} : { parent }) } },
});
const ask = (on: RelayBench, ids: number[], rank?: number) =>
  collect(
    on.client.stream(
      generate,
      requestOf(ids, { maxNewTokens: 2 }, rank === undefined ? {} : { dataParallelRank: rank }),
    ),
  );
const jobsOf = (nodes: readonly ScriptedNode[]) => nodes.map(({ jobs }) => jobs.length);

test('a prompt goes to the node that caches most of it, until that one tells that it has it no more', async () => {
  const on = await start();
  const nodes = [await on.node(), await on.node(), await on.node()] as const;
  const blocks = Array.from({ length: 20 }, (_, at) => at);
  await nodes[1].tell(stored([100], LONG.slice(0, 16)));
  await nodes[2].tell(stored(blocks.slice(0, 10), LONG.slice(0, 160)), stored(blocks.slice(10), LONG.slice(160), 9));
  await ask(on, LONG);
  await ask(on, [...LONG, 1, 2, 3]);
  expect(jobsOf(nodes)).toEqual([0, 0, 2]);
  // Another prompt is cached nowhere.
  await ask(
    on,
    LONG.map((id) => id + 1),
  );
  expect(jobsOf(nodes)).toEqual([1, 0, 2]);
  await nodes[2].tell({ event: { case: 'cacheRemoved', value: { blocks: blocks.slice().reverse() } } });
  await ask(on, LONG);
  expect(jobsOf(nodes)).toEqual([1, 1, 2]);
  await nodes[1].tell({ event: { case: 'cacheCleared', value: {} } });
  await ask(on, LONG);
  expect(jobsOf(nodes)).toEqual([2, 1, 2]);
  // A pin counts for more.
  await nodes[2].tell(stored(blocks, LONG));
  await ask(on, LONG, 1);
  expect(jobsOf(nodes)).toEqual([2, 2, 2]);
});

test('prompts that begin alike go where the first of them is being computed, and load counts for more', async () => {
  const on = await start();
  const nodes = [
    await on.node({ manual: true, maxRunning: 8 }),
    await on.node({ manual: true, maxRunning: 8 }),
  ] as const;
  const streams = Array.from({ length: 4 }, (_, at) => on.client.stream(generate, requestOf([...LONG, at])));
  for (const stream of streams) stream.on('error', () => {});
  await expect.poll(() => nodes[0].jobs.length + nodes[1].jobs.length, { timeout: 5_000 }).toBe(4);
  // A whole hit is worth just over a quarter of a node here: two of its eight sequences.
  expect(jobsOf(nodes)).toEqual([3, 1]);
  for (const stream of streams) stream.cancel();
});

test('what waits counts as uncached as far as its node does not cache it; metrics have what was told and counted', async () => {
  const on = await start();
  const node = await on.node({ manual: true, maxRunning: 1 });
  const streams = [[1, 2], LONG].map((ids) => on.client.stream(generate, requestOf(ids)));
  for (const stream of streams) stream.on('error', () => {});
  await node.until(() => node.jobs.length === 1);
  const uncached = async () => {
    const { loads } = await on.client.unary(getLoads, create(GetLoadsRequestSchema));
    return loads.map(({ numWaitingReqs, numWaitingUncachedTokens }) => [numWaitingReqs, numWaitingUncachedTokens]);
  };
  await expect.poll(uncached, { timeout: 5_000 }).toEqual([[1, 320]]);
  await node.tell(stored([3, 4, 5], LONG.slice(0, 48)));
  expect(await uncached()).toEqual([[1, 272]]);
  const text = async () => (await fetch(`${on.webUrl}/metrics`)).text();
  expect(await text()).toMatch(/^shoal:told_cached_tokens\{dp_rank="0",.*\} 48$/m);
  expect(await text()).toMatch(/^shoal:recent_losses\{dp_rank="0",.*\} 0$/m);
  // Too few tokens came for a speed.
  expect(await text()).not.toMatch(/^shoal:sample_tokens_per_second\{/m);
  const jobId = node.jobs[0]?.jobId ?? 0n;
  for (let offset = 0; offset < 20; offset++) {
    await node.tell({ jobId, event: { case: 'tokens', value: { offset, tokenIds: [9] } } });
  }
  expect(await text()).toMatch(/^shoal:sample_tokens_per_second\{dp_rank="0",.*\} \d+/m);
  for (const stream of streams) stream.cancel();
});

test.each([
  ['a block that it tells twice', [stored([1], LONG.slice(0, 16)), stored([1], LONG.slice(0, 16))]],
  ['a block below one that it does not hold', [stored([1], LONG.slice(0, 16), 5)]],
  ['half a block', [stored([1], LONG.slice(0, 8))]],
  ['a token outside the vocabulary', [stored([1], Array(16).fill(512))]],
  ['a block beyond its pool', [stored([256], LONG.slice(0, 16))]],
  ['the loss of a block that it never had', [{ event: { case: 'cacheRemoved' as const, value: { blocks: [0] } } }]],
  [
    'more of its cache than one report may tell',
    [{ event: { case: 'cacheRemoved' as const, value: { blocks: Array.from({ length: 4_097 }, (_, at) => at) } } }],
  ],
  ['a cache of a job', [{ ...stored([1], LONG.slice(0, 16)), jobId: 1n }]],
])('a node is put out for %s', async (_, events) => {
  const on = await start();
  const liar = await on.node({ manual: true, poolTokens: 4096 });
  await liar.tell(...events);
  expect(liar.reportError?.rawMessage).toMatch(/^The node told what can't be/);
});

test('slow nodes get less, by tokens as they came to the relay; so do hidden ones and those that fail', async () => {
  const on = await start();
  // Far apart: a pause of the machine makes the fast one slower too.
  const nodes = [await on.node({ stepMs: 150 }), await on.node({ stepMs: 1 })] as const;
  const claim = { genThroughput: 1e9, running: 0, waiting: 0 };
  nodes[0].load = claim;
  for (const rank of [0, 1]) {
    const request = requestOf(PROMPT, { maxNewTokens: 12 }, { dataParallelRank: rank });
    expect((await collect(on.client.stream(generate, request))).error).toBeUndefined();
  }
  for (let at = 0; at < 3; at++) await ask(on, PROMPT);
  expect(jobsOf(nodes)).toEqual([1, 4]);
  // In a hidden tab the fast one is a slow one too, and yet not that slow.
  const third = await on.node();
  nodes[1].load = { hidden: true };
  await nodes[1].report(true);
  await ask(on, PROMPT);
  expect([...jobsOf(nodes), third.jobs.length]).toEqual([1, 4, 1]);
  third.load = { hidden: true };
  await third.report(true);
  nodes[1].load = {};
  await nodes[1].report(true);
  await ask(on, PROMPT);
  expect([...jobsOf(nodes), third.jobs.length]).toEqual([1, 5, 1]);
});

test('a node that failed a request gets the next ones after others, also in another session', async () => {
  const on = await start();
  const failing = await on.node({ manual: true, nodeId: 'a-failing-node' });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 3 })));
  await failing.until(() => failing.jobs.length === 1);
  const good = await on.node();
  const failed = { code: status.INTERNAL, message: 'NaN' };
  await failing.tell({ jobId: failing.jobs[0]?.jobId ?? 0n, event: { case: 'failed', value: failed } });
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 3));
  await failing.detach();
  const again = await on.node({ nodeId: 'a-failing-node' });
  expect(again.welcome?.rank).toBe(0);
  await ask(on, PROMPT);
  expect([again.jobs.length, good.jobs.length]).toEqual([0, 2]);
});

test('a node that goes silent on a request it never began loses it, once another could take it', async () => {
  const on = await start({ tokenStallMs: 1_000, heartbeatMs: 50 });
  const stuck = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 5 })));
  await stuck.until(() => stuck.jobs.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  // Nobody else could: it may be computing a long prompt.
  expect(stuck.commandsOf('abort')).toEqual([]);
  await on.node();
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 5));
  expect(stuck.commandsOf('abort')).toHaveLength(1);
});

test('a node that drains hands over at its bound, where another takes it; else it goes on', async () => {
  const build = { packageVersion: '1', pageHash: 'a'.repeat(64) };
  const on = await start({ drainMs: 150, heartbeatMs: 50, build });
  const node = await on.node({ stepMs: 10, attach: { build: build as never } });
  const { whole } = await running(on, 400);
  // It comes back as a page of another build: what runs goes on.
  (node as unknown as { script: { attach: unknown } }).script.attach = {
    build: { ...build, pageHash: 'c'.repeat(64) },
  };
  await node.reconnect();
  await node.until(() => node.commandsOf('drain').length === 1);
  expect(node.commandsOf('drain')[0]?.handOverMs).toBe(150);
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(node.commandsOf('abort')).toEqual([]);
  const other = await on.node();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 400));
  expect(node.commandsOf('abort')).toHaveLength(1);
  expect(other.jobs[0]?.samples[0]?.emittedIds.length).toBeGreaterThan(0);
});
