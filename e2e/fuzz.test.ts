// Random and mutated requests, over real gRPC through the real relay to a node over the CPU reference runner.
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  GenerateRequestSchema,
  GetLoadsRequestSchema,
  SglangScheduler,
} from '../src/contract/gen/sglang_scheduler_pb.ts';
import { checkBlocks } from '../src/engine/testing/check-blocks.ts';
import { CountedGrammars } from '../src/engine/testing/counted-grammars.ts';
import { type Relay, startRelay } from '../src/relay/relay.ts';
import { collect, GrpcClient } from '../src/relay/testing/grpc-client.ts';
import { type CpuNode, openCpuNode } from './harness/cpu-node.ts';
import { Fuzz } from './harness/fuzz.ts';
import { POOL_TOKENS, RANKS, servedTinyModel, strictGrammars, TINY_MODEL, WORLD } from './harness/fuzz-world.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 600_000 });

const LONG = process.env.SHOAL_LONG === '1';
const COUNT = LONG ? 20_000 : 600;
const PARALLEL = 48;

let relay: Relay;
let client: GrpcClient;
const nodes: CpuNode[] = [];
const grammars: CountedGrammars[] = [];

beforeAll(async () => {
  relay = await startRelay({
    model: await servedTinyModel(),
    build: { packageVersion: '0.0.0-test', pageHash: 'a'.repeat(64) },
    grpcPort: 0,
    webPort: 0,
    closeGraceMs: 0,
    auditShare: 0,
    // A rank that nobody has.
    startWaitMs: 300,
    logger: pino({ level: 'silent' }),
  });
  client = new GrpcClient(relay.grpcPort);
  for (let rank = 0; rank < RANKS; rank++) {
    const own = new CountedGrammars(strictGrammars());
    grammars.push(own);
    nodes.push(
      await openCpuNode({ webPort: relay.webPort, digest: relay.model.digest }, TINY_MODEL, {
        nodeId: `fuzz-node-${rank}`,
        maxRunning: 16,
        kvBlocks: POOL_TOKENS / 16,
        grammars: own,
      }),
    );
  }
  await until('all nodes serve', 10_000, async () => (await loads()).length === RANKS);
});

afterAll(async () => {
  client?.close();
  for (const node of nodes) node.session.leave();
  await Promise.all(nodes.map((node) => node.ended));
  await relay?.close();
});

async function loads() {
  return (await client.unary(SglangScheduler.method.getLoads, create(GetLoadsRequestSchema))).loads;
}

/** The ids that each rank makes of one prompt. */
async function reference(): Promise<number[][]> {
  return Promise.all(
    nodes.map(async (_, dataParallelRank) => {
      const request = create(GenerateRequestSchema, {
        tokenized: { inputIds: [5, 9, 13, 21, 34] },
        samplingParams: { maxNewTokens: 20, ignoreEos: true },
        dataParallelRank,
      });
      const { messages, error } = await collect(client.stream(SglangScheduler.method.generate, request));
      expect(error).toBeUndefined();
      const last = messages.at(-1)?.response;
      return last?.case === 'complete' ? last.value.outputIds : [];
    }),
  );
}

test(`${COUNT} requests: each meets a status from the table or a whole stream, and nothing is left behind`, async () => {
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const before = await reference();
  expect(before.map(({ length }) => length)).toEqual([20, 20]);
  const fuzz = new Fuzz(WORLD, client, [Code.InvalidArgument]);
  const met = await fuzz.run(COUNT, PARALLEL, seed);
  console.log(`fuzz, seed ${seed}:`, Object.fromEntries([...met].sort()));

  await until('nothing runs', 30_000, async () => (await loads()).every((load) => load.numTotalReqs === 0));
  await until('the engines are idle', 10_000, async () => nodes.every(({ engine }) => engine.idle));
  for (const [at, { engine }] of nodes.entries()) {
    checkBlocks(engine.scheduler);
    engine.flushCache();
    expect(engine.scheduler.kv.free()).toBe(engine.scheduler.kv.groups[0]!.blocks);
    expect([grammars[at]?.opening, grammars[at]?.closed]).toEqual([0, grammars[at]?.opened]);
  }
  expect(await reference()).toEqual(before);
  // Else it says little.
  expect(met.get('served')).toBeGreaterThan(COUNT / 4);
  expect(met.get('refused')).toBeGreaterThan(COUNT / 20);
});
