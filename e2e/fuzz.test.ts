// Random and mutated requests, over real gRPC through the real relay to a node over the CPU reference runner.
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  GenerateRequestSchema,
  GetLoadsRequestSchema,
  type SamplingParams,
  SglangScheduler,
} from '../src/contract/gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from '../src/contract/normalised-request.ts';
import type { RequestWorld } from '../src/contract/testing/any-generate-request.ts';
import { GrammarError, type Grammars } from '../src/engine/grammars.ts';
import { checkBlocks } from '../src/engine/testing/check-blocks.ts';
import { CountedGrammars } from '../src/engine/testing/counted-grammars.ts';
import { type IdAutomaton, IdGrammars } from '../src/engine/testing/id-grammars.ts';
import { tinyModel } from '../src/model/testing/tiny-model.ts';
import { type Relay, startRelay } from '../src/relay/relay.ts';
import { readServedModel } from '../src/relay/served-model.ts';
import { collect, GrpcClient } from '../src/relay/testing/grpc-client.ts';
import { type CpuNode, openCpuNode } from './harness/cpu-node.ts';
import { Fuzz } from './harness/fuzz.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 600_000 });

const LONG = process.env.SHOAL_LONG === '1';
const COUNT = LONG ? 20_000 : 600;
const PARALLEL = 48;

const SHAPE = { vocabSize: 64, contextLength: 96, hiddenSize: 16 };
const EOS = [2];
const RANKS = 2;
const POOL_TOKENS = 96 * 16;
const MODEL: ModelLimits = { ...SHAPE, eosTokenIds: EOS, poolTokens: POOL_TOKENS };

const automaton = fc.record<IdAutomaton>({
  seed: fc.nat(),
  states: fc.integer({ min: 1, max: 6 }),
  density: fc.constantFrom(4, 4, 16),
  ends: fc.integer({ min: 1, max: 4 }),
  fault: fc.constantFrom(undefined, undefined, undefined, undefined, 'refused' as const) as never,
});
const WORLD: RequestWorld = {
  model: MODEL,
  maxNewTokens: 24,
  ranks: RANKS,
  stop: fc.stringMatching(/^[a-z]{1,3}$/),
  constraint: fc.record({
    case: fc.constantFrom('regex', 'jsonSchema', 'ebnfGrammar', 'structuralTag'),
    value: automaton.map((one) => JSON.stringify(one)),
  }) as fc.Arbitrary<SamplingParams['constraint']>,
};

let relay: Relay;
let client: GrpcClient;
const nodes: CpuNode[] = [];
const grammars: CountedGrammars[] = [];

/** Texts that are no automata are refused, as a compiler refuses what is no grammar. */
function strict(inner: IdGrammars): Grammars {
  return {
    async open(constraint, outputIds) {
      const valid = (() => {
        try {
          return typeof JSON.parse(constraint.text)?.states === 'number';
        } catch {
          return false;
        }
      })();
      if (!valid) throw new GrammarError('invalid_argument', 'not a grammar');
      return inner.open(constraint, outputIds);
    },
    destroy: () => inner.destroy(),
  };
}

beforeAll(async () => {
  const served = await readServedModel('models/stories260K');
  relay = await startRelay({
    model: { ...served, ...SHAPE, layers: 1, eosTokenIds: EOS },
    build: { packageVersion: '0.0.0-test', pageHash: 'a'.repeat(64) },
    grpcPort: 0,
    webPort: 0,
    closeGraceMs: 0,
    // A rank that nobody has.
    startWaitMs: 300,
    logger: pino({ level: 'silent' }),
  });
  client = new GrpcClient(relay.grpcPort);
  const model = tinyModel(11, SHAPE);
  for (let rank = 0; rank < RANKS; rank++) {
    const own = new CountedGrammars(strict(new IdGrammars(SHAPE.vocabSize, EOS)));
    grammars.push(own);
    nodes.push(
      await openCpuNode({ webPort: relay.webPort, digest: relay.model.digest }, model, {
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
    expect(engine.scheduler.kv.free).toBe(engine.scheduler.kv.blocks);
    expect([grammars[at]?.opening, grammars[at]?.closed]).toEqual([0, grammars[at]?.opened]);
  }
  expect(await reference()).toEqual(before);
  // Else it says little.
  expect(met.get('served')).toBeGreaterThan(COUNT / 4);
  expect(met.get('refused')).toBeGreaterThan(COUNT / 20);
});
