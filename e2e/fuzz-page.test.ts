// Random and mutated requests, over real gRPC through the real relay to a page in a real browser.
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SamplingParams } from '../src/contract/gen/sglang_scheduler_pb.ts';
import type { RequestWorld } from '../src/contract/testing/any-generate-request.ts';
import { GrpcClient } from '../src/relay/testing/grpc-client.ts';
import { Fuzz } from './harness/fuzz.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { restingCounters } from './harness/page-counters.ts';
import { HEAP_ARGS, leastHeap } from './harness/page-heap.ts';
import { collect, greedyRequest, idsOf } from './harness/scheduler.ts';
import { openServing, type Serving } from './harness/serving.ts';
import { CASE_OF, STRUCTURED } from './harness/structured.ts';
import { until } from './harness/wait.ts';

const LONG = process.env.SHOAL_LONG === '1';
const COUNT = LONG ? 300 : 30;
const PARALLEL = 8;
/** Code that only now was compiled is in it; what each of 300 requests left behind would be too. */
const HEAP_SLACK_BYTES = 1_000_000;

const anyConstraint: fc.Arbitrary<SamplingParams['constraint']> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom(...STRUCTURED).map(({ kind, text }) => ({ case: CASE_OF[kind], value: text })),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      case: fc.constantFrom('regex', 'jsonSchema', 'ebnfGrammar', 'structuralTag'),
      value: fc.oneof(fc.string({ unit: 'binary', minLength: 1 }), fc.json()),
    }) as fc.Arbitrary<SamplingParams['constraint']>,
  },
);

let serving: Serving;
let client: GrpcClient;

beforeAll(async () => {
  serving = await openServing(['--start-wait', '300ms'], { args: HEAP_ARGS });
  client = new GrpcClient(serving.relay.grpc.port);
});

afterAll(async () => {
  client?.close();
  await serving?.close();
});

const reference = async () => idsOf(await collect(serving.client, greedyRequest(PROMPT_IDS, { maxNewTokens: 196 })));

/** The page's Web Worker, and those for grammars that are kept without an output to follow. */
const MOST_WORKERS = 3;

/** What the page holds at rest, its prefix cache emptied. */
async function atRest() {
  await until('nothing runs', 30_000, async () => (await serving.client.getLoads({})).loads[0]?.numTotalReqs === 0);
  expect((await serving.client.flushCache({ timeoutS: 20 })).success).toBe(true);
  await until('the workers are few', 10_000, () => serving.page.workers().length <= MOST_WORKERS);
  const { gpuBytes, gpuBuffers, usedTokens, cachedTokens } = await restingCounters(serving.page, 20_000);
  return { held: { gpuBytes, gpuBuffers, usedTokens, cachedTokens }, heap: await leastHeap(serving.page) };
}

test(`${COUNT} requests: each meets a status from the table or a whole stream, and the page is as it was`, {
  timeout: 60_000 + COUNT * 4_000,
}, async () => {
  const [load] = (await serving.client.getLoads({})).loads;
  const world: RequestWorld = {
    model: {
      vocabSize: 512,
      contextLength: 512,
      hiddenSize: 64,
      eosTokenIds: [1, 2],
      poolTokens: load!.maxTotalNumTokens,
    },
    maxNewTokens: 40,
    ranks: 1,
    constraint: anyConstraint,
    stop: fc.oneof(fc.constantFrom('.', ' the', 'Lily', '"', '🙂'), fc.string({ minLength: 1 })),
  };
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  // A constraint may take more time or memory than one may have.
  const fuzz = new Fuzz(world, client, [Code.InvalidArgument, Code.ResourceExhausted]);
  // What is made once is there from here on: compiled code, grammar workers.
  await fuzz.run(20, PARALLEL, seed + 1);
  expect(await reference()).toEqual(OUTPUT_IDS);
  const before = await atRest();

  const met = await fuzz.run(COUNT, PARALLEL, seed);
  console.log(`fuzz of a page, seed ${seed}:`, Object.fromEntries([...met].sort()));
  const after = await atRest();
  expect(after.held).toEqual(before.held);
  const grown = { window: after.heap.window - before.heap.window, worker: after.heap.worker - before.heap.worker };
  console.log(`heap bytes over ${COUNT} requests: window ${grown.window}, worker ${grown.worker}`);
  expect(Math.max(grown.window, grown.worker)).toBeLessThan(HEAP_SLACK_BYTES);
  expect(await reference()).toEqual(OUTPUT_IDS);
  expect(serving.browser.errors).toEqual([]);
  // Else it says little.
  expect(met.get('served')).toBeGreaterThan(LONG ? COUNT / 4 : 0);
  expect(met.get('refused')).toBeGreaterThan(0);
});
