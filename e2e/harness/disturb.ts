import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../src/gpu/testing/random.ts';
import { type ChaosNode, DISTURBANCES, type Disturbance } from './chaos-node.ts';
import type { ReportFate } from './faulty-proxy.ts';

export interface Disturbing {
  readonly nodes: readonly ChaosNode[];
  readonly random: Random;
  readonly leaseMs: number;
  /** Between two disturbances' beginnings, at most. */
  readonly calmMs: number;
  /** Nodes that nothing happens to at a time, at least. */
  readonly spared: number;
}

function anyFate(random: Random): ReportFate {
  const fates: readonly ReportFate[] = [
    'arrives',
    'comes twice',
    'answer lost',
    { againAfter: random.integer(1, 300) },
    { overtaken: random.integer(1, 400) },
  ];
  return fates[random.integer(0, fates.length - 1)]!;
}

/** What happens to a node; shorter than the lease as often as longer. */
function happen(what: Disturbance, node: ChaosNode, { random, leaseMs }: Disturbing): Promise<void> {
  const ms = random.integer(50, 2 * leaseMs);
  if (what === 'muddle') return node.muddle(ms, () => anyFate(random));
  return what === 'kill' || what === 'leave' ? node[what]() : node[what](ms);
}

/**
 * Disturbs nodes until `over`, several at a time, each sort in turn; how often each sort hit a node that had work.
 * Settles once all is calm again.
 */
export async function disturb(disturbing: Disturbing, over: () => boolean): Promise<Record<Disturbance, number>> {
  const { nodes, random, calmMs, spared } = disturbing;
  const hits = { kill: 0, leave: 0, freeze: 0, cut: 0, slow: 0, muddle: 0 };
  const underWay = new Map<ChaosNode, Promise<void>>();
  let failure: unknown;
  for (let turn = 0; !over() && failure === undefined; ) {
    await sleep(random.integer(1, calmMs));
    const free = nodes.filter((node) => !underWay.has(node) && node.busy);
    if (free.length === 0 || nodes.length - underWay.size <= spared) continue;
    const node = free[random.integer(0, free.length - 1)]!;
    const what = DISTURBANCES[turn++ % DISTURBANCES.length]!;
    hits[what]++;
    const done = happen(what, node, disturbing)
      .catch((error: unknown) => {
        failure = error;
      })
      .finally(() => underWay.delete(node));
    underWay.set(node, done);
  }
  await Promise.all(underWay.values());
  if (failure !== undefined) throw failure;
  return hits;
}
