import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { Random } from '../../src/gpu/testing/random.ts';
import { type Load, type LoadCount, repeatableRequest, runLoad } from './chaos-load.ts';
import type { ChaosNode, Disturbance } from './chaos-node.ts';
import { disturb, LOOK_MS } from './disturb.ts';

/** Chaos that doesn't get on ends after so many times its time. */
const MOST_TIMES = 3;

export interface Chaos {
  readonly load: Load;
  readonly nodes: readonly ChaosNode[];
  readonly leaseMs: number;
  readonly seed: number;
  readonly requests: number;
  /** Tokens of an output, at most. */
  readonly mostTokens: number;
  readonly chaosMs: number;
  /** Disturbed streams that end with OK, and hits of each disturbance, at least: until then it goes on. */
  readonly leastServed: number;
  readonly leastHits: number;
  /** Between a stream's end and the next one in its place, at most. */
  readonly pauseMs: number;
  /** Between two deaths of the relay. */
  readonly restartsMs: number;
  /** Between two disturbances, at most. */
  readonly calmMs: number;
  /** Nodes that nothing happens to at a time, at least. */
  readonly spared: number;
}

export interface ChaosCount {
  readonly count: LoadCount;
  readonly hits: Hits;
}

type Hits = Record<Disturbance | 'restart', number>;

/** Serves requests in calm, and again for `chaosMs` at least while nodes and relay are disturbed. Rejects where ids differ. */
export async function chaos(settings: Chaos): Promise<ChaosCount> {
  const { load, seed, requests: many, mostTokens, chaosMs, leastServed, leastHits, pauseMs } = settings;
  const random = new Random(seed);
  const requests = Array.from({ length: many }, () => repeatableRequest(random, load.model, mostTokens));
  const calm: (readonly (readonly number[])[])[] = [];
  const takeCalm = (at: number, ids: readonly (readonly number[])[]) => {
    calm[at] = ids;
  };
  await runLoad(load, { requests, over: () => true, name: 'calm', take: takeCalm, pauseMs: () => 0 });
  const startedAt = performance.now();
  const hits: Hits = { kill: 0, leave: 0, freeze: 0, cut: 0, slow: 0, duplicate: 0, reorder: 0, restart: 0 };
  let failed = false;
  let served = 0;
  const over = () => {
    const times = (performance.now() - startedAt) / chaosMs;
    const enough = served >= leastServed && Object.values(hits).every((count) => count >= leastHits);
    return failed || times > MOST_TIMES || (times > 1 && enough);
  };
  const disturbed = disturb({ ...settings, random }, hits, over);
  const restarted = restartRelay(settings, hits, over);
  const settled = Promise.allSettled([disturbed, restarted]);
  try {
    const asInCalm = (at: number, ids: readonly (readonly number[])[]) => {
      expect(ids, `request ${at}`).toEqual(calm[at]);
      served++;
    };
    const pause = () => random.integer(0, pauseMs);
    const count = await runLoad(load, { requests, over, name: 'chaos', take: asInCalm, pauseMs: pause });
    await Promise.all([disturbed, restarted]);
    expect(load.relay.accusations, 'no node lies').toEqual([]);
    return { count, hits };
  } catch (error) {
    throw new Error([`seed ${seed}`, ...load.relay.accusations].join('\n'), { cause: error });
  } finally {
    failed = true;
    await settled;
  }
}

/** Kills the relay now and then, under streams, which end with it. */
async function restartRelay({ load, restartsMs }: Chaos, hits: Hits, over: () => boolean): Promise<void> {
  let nextAt = performance.now() + restartsMs;
  for (; !over(); await sleep(LOOK_MS)) {
    if (performance.now() < nextAt || load.told === 0) continue;
    await load.relay.restart();
    hits.restart++;
    nextAt = performance.now() + restartsMs;
  }
}
