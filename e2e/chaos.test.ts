// Nodes that are killed, stand still, are cut off, slow down and report twice or late, and a relay that is killed: no stream notices but those of the relay.
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { GetLoadsRequestSchema, SglangScheduler } from '../src/contract/gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from '../src/contract/normalised-request.ts';
import { checkBlocks } from '../src/engine/testing/check-blocks.ts';
import { Random } from '../src/gpu/testing/random.ts';
import { tinyModel } from '../src/model/testing/tiny-model.ts';
import { openModel } from '../src/relay/model/open-model.ts';
import { type Load, type LoadCount, repeatableRequest, runLoad, streamOnce } from './harness/chaos-load.ts';
import { disturb } from './harness/disturb.ts';
import { MortalRelay } from './harness/mortal-relay.ts';
import { greedyRequest } from './harness/scheduler.ts';
import { SimulatedNode } from './harness/simulated-node.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 600_000 });

const LONG = process.env.SHOAL_LONG === '1';
const CHAOS_MS = LONG ? 120_000 : 12_000;
const REQUESTS = LONG ? 400 : 48;
const LEAST_SERVED = LONG ? 2_000 : 60;
const RESTARTS_MS = LONG ? 15_000 : 5_000;
const RESUMES = 10;
const NODES = 5;
const LEASE_MS = 1_500;
const SERVED = await openModel('models/stories260K');
const MODEL: ModelLimits = SERVED;
/** Of the bundled model's shape to the outside. */
const TINY = tinyModel(3, { vocabSize: MODEL.vocabSize, contextLength: MODEL.contextLength });

let relay: MortalRelay;
let load: Load;
const nodes: SimulatedNode[] = [];

beforeAll(async () => {
  relay = await MortalRelay.start(['--lease', `${LEASE_MS}ms`, '--heartbeat', '300ms']);
  load = { relay, model: MODEL, parallel: 24 };
  const { digest } = SERVED;
  for (let i = 0; i < NODES; i++) {
    const settings = { webUrl: relay.webUrl, digest, model: TINY, layers: 5, kvBlocks: 256, maxRunning: 8, stepMs: 6 };
    nodes.push(await SimulatedNode.open(settings));
  }
});

afterAll(async () => {
  for (const node of nodes) await node.close();
  await relay?.close();
});

async function running(): Promise<number> {
  const { loads } = await relay.client.unary(SglangScheduler.method.getLoads, create(GetLoadsRequestSchema));
  return loads.reduce((sum, { numTotalReqs }) => sum + numTotalReqs, 0);
}

/** Kills the relay now and then; streams open then end with it. */
async function restartRelay(over: () => boolean): Promise<number> {
  let times = 0;
  while (!over()) {
    await sleep(RESTARTS_MS);
    if (over()) break;
    await relay.restart();
    times++;
  }
  return times;
}

/**
 * Ids depend on all before them: of so many greedy outputs, those that go on as they did after their first half, and
 * otherwise where one id of it is lost. A resume that loses one would show in so many.
 */
async function shownResumes(random: Random): Promise<number> {
  const one = async () => {
    const prompt = Array.from({ length: random.integer(3, 30) }, () => random.integer(3, MODEL.vocabSize - 1));
    const lost = random.integer(0, 11);
    const greedy = async (inputIds: number[], maxNewTokens: number) => {
      const request = greedyRequest(inputIds, { maxNewTokens, ignoreEos: true });
      return (await streamOnce(load, request))[0]!;
    };
    const ids = await greedy(prompt, 24);
    const half = ids.slice(0, 12);
    expect(await greedy([...prompt, ...half], 12)).toEqual(ids.slice(12));
    half.splice(lost, 1);
    return (await greedy([...prompt, ...half], 12)).join() !== ids.slice(12).join();
  };
  return (await Promise.all(Array.from({ length: RESUMES }, one))).filter(Boolean).length;
}

test('whatever happens to nodes and relay, each stream is whole, and as it is in calm', async () => {
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const random = new Random(seed);
  const requests = Array.from({ length: REQUESTS }, () => repeatableRequest(random, MODEL, 90));
  const calm: (readonly (readonly number[])[])[] = [];
  await runLoad(
    load,
    requests,
    () => true,
    'calm',
    (at, ids) => {
      calm[at] = ids;
    },
  );

  const shown = await shownResumes(random);
  expect(shown).toBeGreaterThan(RESUMES * 0.8);

  const endAt = performance.now() + CHAOS_MS;
  const over = () => performance.now() > endAt;
  let failed = false;
  const stopped = () => over() || failed;
  const disturbed = disturb({ nodes, random, leaseMs: LEASE_MS, calmMs: 250, spared: 2 }, stopped);
  const restarted = restartRelay(stopped);
  const settled = Promise.allSettled([disturbed, restarted]);
  let count: LoadCount;
  try {
    count = await runLoad(load, requests, over, 'chaos', (at, ids) => {
      expect(ids, `request ${at} of seed ${seed}`).toEqual(calm[at]);
    });
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  } finally {
    failed = true;
    await settled;
  }
  const [hits, restarts] = [await disturbed, await restarted];
  console.log(`chaos, seed ${seed}: ${shown} of ${RESUMES} wrong resumes show;`, count, hits, { restarts });

  await until('nothing runs', 20_000, async () => (await running()) === 0);
  await until('the engines are idle', 10_000, () => nodes.every(({ engine }) => engine.idle));
  for (const { engine } of nodes) {
    checkBlocks(engine.scheduler);
    engine.flushCache();
    expect(engine.scheduler.kv.free).toBe(engine.scheduler.kv.blocks);
  }
  expect(count.served).toBeGreaterThanOrEqual(LEAST_SERVED);
  expect(count.cutByRelay).toBeGreaterThan(0);
  for (const times of [...Object.values(hits), restarts]) expect(times).toBeGreaterThan(LONG ? 5 : 1);
});
