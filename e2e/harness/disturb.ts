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

/** Between two looks whether there is work. */
export const LOOK_MS = 20;

function anyFate(what: 'duplicate' | 'reorder', random: Random): ReportFate {
  const fates: readonly ReportFate[] =
    what === 'duplicate'
      ? ['arrives', 'comes twice', 'answer lost']
      : ['arrives', { againAfter: random.integer(1, 300) }, { overtaken: random.integer(1, 400) }];
  return fates[random.integer(0, fates.length - 1)]!;
}

/** What happens to a node; shorter than the lease as often as longer. False where it met nothing that it could happen to. */
async function happen(what: Disturbance, node: ChaosNode, { random, leaseMs }: Disturbing): Promise<boolean> {
  const ms = random.integer(50, 2 * leaseMs);
  if (what === 'duplicate' || what === 'reorder') {
    let met = false;
    await node.muddle(ms, () => {
      const fate = anyFate(what, random);
      met ||= fate !== 'arrives';
      return fate;
    });
    return met;
  }
  await (what === 'kill' || what === 'leave' ? node[what]() : node[what](ms));
  return true;
}

/**
 * Disturbs nodes until `over`, several at a time, each sort in turn; counts in `hits` how often each sort hit a
 * node that had work. Settles once all is calm again.
 */
export async function disturb(
  disturbing: Disturbing,
  hits: Record<Disturbance, number>,
  over: () => boolean,
): Promise<void> {
  const { nodes, random, calmMs, spared } = disturbing;
  const underWay = new Map<ChaosNode, Promise<void>>();
  let failure: unknown;
  const nextNode = () => {
    const free = nodes.length - underWay.size > spared ? nodes.filter((node) => !underWay.has(node) && node.busy) : [];
    return free[random.integer(0, free.length - 1)];
  };
  const check = async () => {
    for (const node of nodes) if (!underWay.has(node)) await node.check();
  };
  for (let turn = 0; !over() && failure === undefined; ) {
    await sleep(random.integer(1, calmMs));
    await check().catch((error: unknown) => {
      failure = error;
    });
    let node = nextNode();
    for (; !node && !over(); node = nextNode()) await sleep(LOOK_MS);
    if (!node) break;
    const what = DISTURBANCES[turn++ % DISTURBANCES.length]!;
    const done = happen(what, node, disturbing)
      .then((met) => {
        if (met) hits[what]++;
      })
      .catch((error: unknown) => {
        failure = error;
      })
      .finally(() => underWay.delete(node));
    underWay.set(node, done);
  }
  await Promise.all(underWay.values());
  await check();
  if (failure !== undefined) throw failure;
}
