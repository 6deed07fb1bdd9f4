import { expect, test } from 'vitest';
import { Job } from '../job.ts';
import type { NodeLink } from '../node-link.ts';
import { chooseAuditor } from './choose-auditor.ts';
import { rescoring } from './rescoring.ts';

const job = new Job(1n, rescoring([1, 2, 3], [4, 5], 100));

interface Node {
  readonly id: string;
  readonly running?: number;
  readonly trusted?: boolean;
  readonly serving?: boolean;
  readonly contextLength?: number;
  readonly precision?: 'exact' | 'fast';
}

/** What of a link the choice goes by. */
function links(nodes: readonly Node[]): NodeLink[] {
  return nodes.map(({ id, running = 0, trusted = false, serving = true, contextLength = 100, precision = 'exact' }) => {
    const facts = { nodeId: id, contextLength, poolTokens: 100, maxRunning: 4, precision };
    return { facts, trusted, serving, runningSamples: running } as unknown as NodeLink;
  });
}

const chosen = (nodes: readonly Node[], settles?: 'exact' | 'fast') =>
  chooseAuditor(links(nodes), job, new Set(['maker']), settles, Math.random)?.facts.nodeId;

test('the least busy that has no part in it, with room for one more', () => {
  expect(chosen([{ id: 'maker' }, { id: 'busy', running: 2 }, { id: 'calm', running: 1 }])).toBe('calm');
  expect(chosen([{ id: 'maker' }])).toBeUndefined();
  expect(chosen([{ id: 'full', running: 3 }])).toBeUndefined();
  expect(
    chosen([
      { id: 'gone', serving: false },
      { id: 'small', contextLength: 4 },
    ]),
  ).toBeUndefined();
});

test('a dispute goes to a node of the operator’s before others, where one could take it', () => {
  const nodes = [{ id: 'calm' }, { id: 'own', running: 2, trusted: true }];
  expect(chosen(nodes)).toBe('calm');
  expect(chosen(nodes, 'exact')).toBe('own');
  expect(chosen([{ id: 'calm' }, { id: 'own', running: 3, trusted: true }], 'exact')).toBe('calm');
});

test('of an exact node’s dispute one that is exact too can tell more', () => {
  const nodes = [
    { id: 'coarse', precision: 'fast' as const },
    { id: 'fine', running: 2 },
  ];
  expect(chosen(nodes)).toBe('coarse');
  expect(chosen(nodes, 'exact')).toBe('fine');
  expect(chosen(nodes, 'fast')).toBe('coarse');
  expect(chosen([{ ...nodes[0]!, trusted: true }, nodes[1]!], 'exact')).toBe('coarse');
});

test('of nodes that are as busy any may be it', () => {
  const nodes = ['a', 'b', 'c'].map((id) => ({ id }));
  const seen = new Set(Array.from({ length: 200 }, () => chosen(nodes)));
  expect([...seen].sort()).toEqual(['a', 'b', 'c']);
});
