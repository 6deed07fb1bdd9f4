import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ListNodesResponseSchema, Node_State } from '../../contract/gen/fleet_monitor_pb.ts';
import { SchedulerLoadSchema } from '../../contract/gen/sglang_scheduler_pb.ts';
import { type NodeRow, nodeRows, poolUsage, sortedRows, sumOf } from './node-rows.ts';

const memory = { weightGb: 1, kvCacheGb: 1 };

test('of GetLoads alone, a figure counts where the node told a load', () => {
  const loads = [
    { dpRank: 0, numRunningReqs: 2, maxRunningRequests: 8, genThroughput: 0, tokenUsage: 0, cacheHitRate: 0, memory },
    { dpRank: 3, numRunningReqs: 0, maxRunningRequests: 8 },
  ].map((load) => create(SchedulerLoadSchema, load));
  const [told, silent] = nodeRows(loads, undefined);
  expect(told).toMatchObject({ rank: 0, running: 2, throughput: 0, usage: 0, hitRate: undefined, adapter: undefined });
  expect(silent).toMatchObject({ rank: 3, running: 0, throughput: undefined, usage: undefined });
  expect([sumOf([told!, silent!], 'throughput'), poolUsage([silent!])]).toEqual([0, undefined]);
});

test('of an operator’s list, each node is a row, with its load where it serves', () => {
  const listed = create(ListNodesResponseSchema, {
    nowMs: 9_000,
    nodes: [
      { rank: 0, nodeId: 'a', state: Node_State.SERVING, poolTokens: 100, usedTokens: 25, attachedAtMs: 4_000 },
      { rank: 1, nodeId: 'b', state: Node_State.OUT_OF_REACH, poolTokens: 100, heardAtMs: 1_000, running: 3 },
    ],
  });
  const [here, gone] = nodeRows([create(SchedulerLoadSchema, { dpRank: 0, numWaitingReqs: 2 })], listed);
  expect(here).toMatchObject({ nodeId: 'a', usage: 0.25, waiting: 2, attachedMs: 5_000, speed: undefined });
  expect(gone).toMatchObject({ nodeId: 'b', usage: undefined, waiting: undefined, running: 3, heardMs: 8_000 });
});

test('a node that keeps no KV has no use of it', () => {
  const nodes = [{ state: Node_State.SERVING, poolTokens: 512, usedTokens: 9, precision: 'exact', kvType: 'f32' }];
  const listed = create(ListNodesResponseSchema, { nowMs: 0, nodes });
  const load = (kvCacheGb: number) => [create(SchedulerLoadSchema, { memory: { weightGb: 1, kvCacheGb } })];
  for (const seen of [listed, undefined])
    expect(poolUsage(nodeRows(load(0), seen)), seen ? 'an operator' : 'a client').toBeUndefined();
  expect(nodeRows(load(0), listed)).toMatchObject([{ form: 'exact' }]);
  expect(nodeRows(load(1), listed)).toMatchObject([{ form: 'exact, f32 KV', usage: 9 / 512 }]);
});

test('KV in use is of all pools that are known, a large one counting for more', () => {
  const nodes = [
    { rank: 0, state: Node_State.SERVING, poolTokens: 300, usedTokens: 30 },
    { rank: 1, state: Node_State.SERVING, poolTokens: 100, usedTokens: 90 },
    { rank: 2, state: Node_State.SERVING, poolTokens: 100 },
  ];
  expect(poolUsage(nodeRows([], create(ListNodesResponseSchema, { nowMs: 0, nodes })))).toBeCloseTo(0.3);
});

test('what a node told before it was out of reach is no figure of now', () => {
  const node = { rank: 1, poolTokens: 100, usedTokens: 50, genThroughput: 40, cacheHitRate: 0.5 };
  const rows = (state: Node_State) =>
    nodeRows([], create(ListNodesResponseSchema, { nowMs: 9_000, nodes: [{ ...node, state }] }));
  expect(rows(Node_State.PAUSED)).toMatchObject([{ usage: 0.5, throughput: 40, hitRate: 0.5 }]);
  const gone = rows(Node_State.OUT_OF_REACH);
  expect(gone).toMatchObject([{ usage: undefined, throughput: undefined, hitRate: undefined }]);
  expect(sumOf(gone, 'throughput')).toBeUndefined();
});

test('rows are sorted either way, equal ones by rank, unknown ones last', () => {
  const speeds = fc.array(fc.option(fc.constantFrom(1, 2, 3, 50), { nil: undefined }), { maxLength: 20 });
  fc.assert(
    fc.property(speeds, fc.boolean(), (all, descending) => {
      const rows = all.map((speed, rank) => ({ rank, speed }) as NodeRow);
      const sorted = sortedRows(rows, { key: 'speed', descending });
      expect(sorted.toSorted((a, b) => a.rank - b.rank)).toEqual(rows);
      for (const [at, row] of sorted.entries()) {
        const next = sorted[at + 1];
        if (!next) continue;
        if (row.speed === undefined) expect(next.speed).toBeUndefined();
        if (row.speed === next.speed) expect(row.rank).toBeLessThan(next.rank);
        else if (next.speed !== undefined) expect(row.speed! > next.speed).toBe(descending);
      }
    }),
  );
});
