import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Ask,
  chooseNode,
  fastestOf,
  HIT_WORTH,
  hasRoom,
  loadOf,
  type NodeView,
  strengthOf,
} from './choose-node.ts';

const IDLE: NodeView = {
  rank: 0,
  willing: true,
  fits: true,
  runningSamples: 0,
  maxRunning: 16,
  heldTokens: 0,
  poolTokens: 16_384,
  cachedTokens: 0,
  tokensPerSecond: 20,
  hidden: false,
  losses: 0,
};
const ASK: Ask = { rank: undefined, samples: 1, promptTokens: 1_000 };
const nodesOf = (...some: Partial<NodeView>[]) => some.map((one, rank) => ({ ...IDLE, rank, ...one }));

const anyAsk = fc.record({
  rank: fc.option(fc.nat(7), { nil: undefined, freq: 3 }),
  samples: fc.integer({ min: 1, max: 8 }),
  promptTokens: fc.integer({ min: 1, max: 5_000 }),
});
const anyNodes = (promptTokens: number) =>
  fc
    .array(
      fc.record({
        willing: fc.boolean(),
        fits: fc.boolean(),
        runningSamples: fc.nat(20),
        maxRunning: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(2 ** 31 - 1)),
        heldTokens: fc.nat(20_000),
        poolTokens: fc.integer({ min: 16, max: 20_000 }),
        cachedTokens: fc.integer({ min: 0, max: promptTokens }),
        tokensPerSecond: fc.option(fc.double({ min: 0, max: 1e6, noNaN: true }), { nil: undefined }),
        hidden: fc.boolean(),
        losses: fc.double({ min: 0, max: 1e3, noNaN: true }),
      }),
      { maxLength: 8 },
    )
    .map((all) => all.map((one, rank): NodeView => ({ rank, ...one })));
const anyCase = anyAsk.chain((ask) => fc.record({ ask: fc.constant(ask), nodes: anyNodes(ask.promptTokens) }));

const takes = (ask: Ask, node: NodeView) =>
  node.willing && node.fits && hasRoom(node, ask.samples) && (ask.rank === undefined || node.rank === ask.rank);

describe('whatever the nodes are like', () => {
  test('only one that may take the request is picked, a pinned rank is exact, and one is picked where there is any', () => {
    fc.assert(
      fc.property(anyCase, ({ ask, nodes }) => {
        const rank = chooseNode(ask, nodes);
        const could = nodes.filter((node) => takes(ask, node)).map((node) => node.rank);
        if (could.length === 0) expect(rank).toBeUndefined();
        else expect(could).toContain(rank);
      }),
      { numRuns: 500 },
    );
  });

  test('no cached prompt makes up for more than half a node of load', () => {
    fc.assert(
      fc.property(anyCase, ({ ask, nodes }) => {
        const picked = nodes.find(({ rank }) => rank === chooseNode(ask, nodes));
        if (!picked) return;
        const able = nodes.filter((node) => node.willing && node.fits && (ask.rank ?? node.rank) === node.rank);
        const fastest = fastestOf(able);
        const loads = nodes.filter((node) => takes(ask, node)).map((node) => loadOf(node, ask, fastest));
        expect(loadOf(picked, ask, fastest)).toBeLessThanOrEqual(Math.min(...loads) + HIT_WORTH + 1e-9);
      }),
      { numRuns: 500 },
    );
  });

  test('a node that gets hidden, flaky or fuller is not picked for that', () => {
    const worse = fc.constantFrom<(node: NodeView) => NodeView>(
      (node) => ({ ...node, hidden: true }),
      (node) => ({ ...node, losses: node.losses + 1 }),
      (node) => ({ ...node, runningSamples: node.runningSamples + 1, heldTokens: node.heldTokens + 100 }),
      (node) => ({ ...node, cachedTokens: Math.floor(node.cachedTokens / 2) }),
    );
    fc.assert(
      fc.property(anyCase, worse, fc.nat(7), ({ ask, nodes }, worsen, at) => {
        const before = chooseNode(ask, nodes);
        fc.pre(before !== undefined && before !== at);
        const after = nodes.map((node) => (node.rank === at ? worsen(node) : node));
        expect(chooseNode(ask, after)).toBe(before);
      }),
      { numRuns: 500 },
    );
  });

  test('none starves: as work comes and none ends, each node is filled, however weak', () => {
    const anyFleet = fc.array(
      fc.record({
        maxRunning: fc.integer({ min: 1, max: 12 }),
        tokensPerSecond: fc.option(fc.double({ min: 0, max: 1e4, noNaN: true }), { nil: undefined }),
        hidden: fc.boolean(),
        losses: fc.double({ min: 0, max: 10, noNaN: true }),
      }),
      { minLength: 1, maxLength: 6 },
    );
    fc.assert(
      fc.property(anyFleet, fc.nat(100), (fleet, cached) => {
        const nodes = fleet.map((one, rank) => ({ ...IDLE, rank, ...one, cachedTokens: rank === 0 ? cached : 0 }));
        const room = nodes.reduce((total, { maxRunning }) => total + maxRunning, 0);
        for (let given = 0; given < room; given++) {
          const rank = chooseNode({ ...ASK, promptTokens: 100 }, nodes);
          if (rank === undefined) throw new Error(`full with ${given} of ${room}`);
          nodes[rank]!.runningSamples++;
        }
        expect(chooseNode(ASK, nodes)).toBeUndefined();
      }),
    );
  });
});

describe('between nodes that could', () => {
  test.each<[string, Partial<NodeView>[], number]>([
    ['the least loaded', [{ runningSamples: 3 }, { runningSamples: 2 }], 1],
    ['the first of equals', [{}, {}], 0],
    ['the one that caches the prompt', [{}, { cachedTokens: 960, runningSamples: 4 }], 1],
    ['not one that caches it and is far busier', [{}, { cachedTokens: 960, runningSamples: 12 }], 0],
    ['the one that caches more of it', [{ cachedTokens: 320 }, { cachedTokens: 640 }], 1],
    [
      'the faster',
      [
        { tokensPerSecond: 5, runningSamples: 1 },
        { tokensPerSecond: 20, runningSamples: 2 },
      ],
      1,
    ],
    ['the slower, once the faster has its share', [{ tokensPerSecond: 5 }, { runningSamples: 8 }], 0],
    ['one that nobody knows before a slow one', [{ tokensPerSecond: 2 }, {}, { tokensPerSecond: undefined }], 1],
    ['one in sight', [{ hidden: true }, {}], 1],
    ['one that lost nothing of late', [{ losses: 1 }, { runningSamples: 0 }], 1],
    ['one with room in its pool', [{ heldTokens: 16_000 }, { runningSamples: 6 }], 1],
    ['not one that claims to run a million', [{ maxRunning: 1e6, runningSamples: 200 }, { runningSamples: 2 }], 1],
  ])('%s', (_, some, rank) => {
    expect(chooseNode(ASK, nodesOf(...some))).toBe(rank);
  });

  test('work is shared by strength: half as fast is half as much', () => {
    const nodes = nodesOf(
      { maxRunning: 100 },
      { maxRunning: 100, tokensPerSecond: 10 },
      { maxRunning: 100, hidden: true },
    );
    const given = [0, 0, 0];
    for (let at = 0; at < 70; at++) {
      const rank = chooseNode({ ...ASK, promptTokens: 10 }, nodes) as number;
      given[rank]!++;
      nodes[rank] = { ...(nodes[rank] as NodeView), runningSamples: given[rank] as number };
    }
    expect(given).toEqual([40, 20, 10]);
  });

  test('strength is that of the fastest at most, and never nothing', () => {
    expect(strengthOf({ ...IDLE, tokensPerSecond: 0, hidden: true, losses: 99 }, 20)).toBe(1 / 16 / 4 / 16);
    expect(strengthOf(IDLE, 20)).toBe(1);
  });
});
