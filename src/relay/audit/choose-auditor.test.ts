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
}

/** What of a link the choice goes by. */
function links(nodes: readonly Node[]): NodeLink[] {
  return nodes.map(({ id, running = 0, trusted = false, serving = true, contextLength = 100 }) => {
    const facts = { nodeId: id, contextLength, poolTokens: 100, maxRunning: 4 };
    return { facts, trusted, serving, runningSamples: running } as unknown as NodeLink;
  });
}

const chosen = (nodes: readonly Node[], settles = false) =>
  chooseAuditor(links(nodes), job, new Set(['maker']), settles)?.facts.nodeId;

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
  expect(chosen(nodes, true)).toBe('own');
  expect(chosen([{ id: 'calm' }, { id: 'own', running: 3, trusted: true }], true)).toBe('calm');
});
