// Nodes that are killed, stand still, are cut off, slow down and report twice or late, and a relay that is killed: no stream notices but those of the relay.
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { GetLoadsRequestSchema, SglangScheduler } from '../src/contract/gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from '../src/contract/normalised-request.ts';
import { checkBlocks } from '../src/engine/testing/check-blocks.ts';
import { Random } from '../src/gpu/testing/random.ts';
import { tinyModel } from '../src/model/testing/tiny-model.ts';
import { openModel } from '../src/relay/model/open-model.ts';
import { chaos } from './harness/chaos.ts';
import { type Load, streamOnce } from './harness/chaos-load.ts';
import { MortalRelay } from './harness/mortal-relay.ts';
import { greedyRequest } from './harness/scheduler.ts';
import { SimulatedNode } from './harness/simulated-node.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 600_000 });

const LONG = process.env.SHOAL_LONG === '1';
/** In the short tier it mostly waits: other lanes compute beside it. */
const TIER = LONG
  ? {
      requests: 400,
      mostTokens: 90,
      chaosMs: 120_000,
      leastServed: 2_000,
      leastHits: 6,
      restartsMs: 15_000,
      calmMs: 250,
      pauseMs: 0,
    }
  : {
      requests: 24,
      mostTokens: 40,
      chaosMs: 75_000,
      leastServed: 70,
      leastHits: 2,
      restartsMs: 20_000,
      calmMs: 1_500,
      pauseMs: 3_000,
    };
const STEP_MS = LONG ? 6 : 80;
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
  load = { relay, model: MODEL, parallel: LONG ? 24 : 6, told: 0 };
  const { digest } = SERVED;
  for (let i = 0; i < NODES; i++) {
    const sizes = { layers: 5, kvBlocks: 256, maxRunning: 8, stepMs: STEP_MS };
    nodes.push(await SimulatedNode.open({ webUrl: relay.webUrl, digest, model: TINY, ...sizes }));
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
  const shown = await shownResumes(new Random(seed));
  expect(shown).toBeGreaterThan(RESUMES * 0.8);
  const { count, hits } = await chaos({
    ...TIER,
    ...{ load, nodes, leaseMs: LEASE_MS, seed, spared: 2 },
  });
  console.log(`chaos, seed ${seed}: ${shown} of ${RESUMES} wrong resumes show;`, count, hits);

  await until('nothing runs', 20_000, async () => (await running()) === 0);
  await until('the engines are idle', 10_000, () => nodes.every(({ engine }) => engine.idle));
  for (const { engine } of nodes) {
    checkBlocks(engine.scheduler);
    engine.flushCache();
    expect(engine.scheduler.kv.free()).toBe(engine.scheduler.kv.groups[0]!.blocks);
  }
  expect(count.served).toBeGreaterThanOrEqual(TIER.leastServed);
  expect(count.cutByRelay).toBeGreaterThan(0);
  for (const times of Object.values(hits)) expect(times).toBeGreaterThanOrEqual(TIER.leastHits);
});
