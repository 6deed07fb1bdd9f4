import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { Random } from '../../src/gpu/testing/random.ts';
import { type Load, type LoadCount, repeatableRequest, runLoad } from './chaos-load.ts';
import type { ChaosNode, Disturbance } from './chaos-node.ts';
import { disturb } from './disturb.ts';

export interface Chaos {
  readonly load: Load;
  readonly nodes: readonly ChaosNode[];
  readonly leaseMs: number;
  readonly seed: number;
  readonly requests: number;
  /** Tokens of an output, at most. */
  readonly mostTokens: number;
  readonly chaosMs: number;
  /** Disturbed streams that end with OK, at least: until then it goes on. */
  readonly leastServed: number;
  /** Between two deaths of the relay. */
  readonly restartsMs: number;
  /** Between two disturbances, at most. */
  readonly calmMs: number;
  /** Nodes that nothing happens to at a time, at least. */
  readonly spared: number;
}

export interface ChaosCount {
  readonly count: LoadCount;
  readonly hits: Record<Disturbance | 'restart', number>;
}

/** Serves requests in calm, and again for `chaosMs` at least while nodes and relay are disturbed. Rejects where ids differ. */
export async function chaos(settings: Chaos): Promise<ChaosCount> {
  const { load, seed, requests: many, mostTokens, chaosMs, leastServed } = settings;
  const random = new Random(seed);
  const requests = Array.from({ length: many }, () => repeatableRequest(random, load.model, mostTokens));
  const calm: (readonly (readonly number[])[])[] = [];
  const takeCalm = (at: number, ids: readonly (readonly number[])[]) => {
    calm[at] = ids;
  };
  await runLoad(load, requests, () => true, 'calm', takeCalm);
  const endAt = performance.now() + chaosMs;
  let failed = false;
  let served = 0;
  const over = () => failed || (performance.now() > endAt && served >= leastServed);
  const disturbed = disturb({ ...settings, random }, over);
  const restarted = restartRelay(settings, over);
  const settled = Promise.allSettled([disturbed, restarted]);
  try {
    const count = await runLoad(load, requests, over, 'chaos', (at, ids) => {
      expect(ids, `request ${at}`).toEqual(calm[at]);
      served++;
    });
    return { count, hits: { ...(await disturbed), restart: await restarted } };
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  } finally {
    failed = true;
    await settled;
  }
}

/** Kills the relay now and then; streams open then end with it. */
async function restartRelay({ load, restartsMs }: Chaos, over: () => boolean): Promise<number> {
  let nextAt = performance.now() + restartsMs;
  let times = 0;
  for (; !over(); await sleep(100)) {
    if (performance.now() < nextAt) continue;
    await load.relay.restart();
    times++;
    nextAt = performance.now() + restartsMs;
  }
  return times;
}
