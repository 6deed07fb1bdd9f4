// Random requests while the nodes that serve them come and go: no token is lost, told twice, or another one.
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { GetLoadsRequestSchema, SglangScheduler } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { type KvEventBatch, SubscribeKvEventsRequestSchema } from '../src/contract/gen/smg_common_pb.ts';
import { checkBlocks } from '../src/engine/testing/check-blocks.ts';
import { CountedGrammars } from '../src/engine/testing/counted-grammars.ts';
import { type Relay, startRelay } from '../src/relay/relay.ts';
import { GrpcClient } from '../src/relay/testing/grpc-client.ts';
import { KvPicture } from '../src/relay/testing/kv-picture.ts';
import { type CpuNode, openCpuNode } from './harness/cpu-node.ts';
import { Fuzz, type Served } from './harness/fuzz.ts';
import { POOL_TOKENS, RANKS, servedTinyModel, strictGrammars, TINY_MODEL, WORLD } from './harness/fuzz-world.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 600_000 });

const COUNT = process.env.SHOAL_LONG === '1' ? 3_000 : 200;
const PARALLEL = 24;
/** Between two nodes that go. */
const CALM_MS = 100;

let relay: Relay;
let client: GrpcClient;
let opened = 0;
/** By no order; each is one rank. */
const nodes: CpuNode[] = [];
const grammars: CountedGrammars[] = [];
const gone: CpuNode[] = [];

async function loads() {
  return (await client.unary(SglangScheduler.method.getLoads, create(GetLoadsRequestSchema))).loads;
}

function openNode(): Promise<CpuNode> {
  const own = new CountedGrammars(strictGrammars());
  grammars.push(own);
  return openCpuNode({ webPort: relay.webPort, digest: relay.model.digest }, TINY_MODEL, {
    nodeId: `failing-node-${++opened}`,
    maxRunning: 16,
    kvBlocks: POOL_TOKENS / 16,
    grammars: own,
  });
}

beforeAll(async () => {
  relay = await startRelay({
    model: await servedTinyModel(),
    build: { packageVersion: '0.0.0-test', pageHash: 'a'.repeat(64) },
    grpcPort: 0,
    webPort: 0,
    leaseMs: 3_000,
    heartbeatMs: 300,
    closeGraceMs: 0,
    auditShare: 0,
    // For a rank that nobody has, and for one that comes back.
    startWaitMs: 6_000,
    rejoinWaitMs: 20_000,
    logger: pino({ level: 'silent' }),
  });
  client = new GrpcClient(relay.grpcPort);
  for (let rank = 0; rank < RANKS; rank++) nodes.push(await openNode());
  await until('all nodes serve', 10_000, async () => (await loads()).length === RANKS);
});

afterAll(async () => {
  client?.close();
  for (const node of nodes) node.session.leave();
  await Promise.all([...nodes, ...gone].map((node) => node.ended));
  await relay?.close();
});

/** Takes nodes away until told to stop: one leaves for good and another comes, or one forgets all and attaches anew. */
async function disturb(stopped: () => boolean): Promise<number> {
  let times = 0;
  while (!stopped()) {
    await new Promise((resolve) => setTimeout(resolve, CALM_MS));
    const at = times++ % RANKS;
    const node = nodes[at] as CpuNode;
    if (times % 3 === 0) node.session.restart();
    else {
      node.session.leave();
      gone.push(node);
      await node.ended;
      nodes[at] = await openNode();
    }
  }
  return times;
}

/** Every prefix of whole blocks that an engine caches, each a line of ids. */
function cachedBy({ engine }: CpuNode): string[] {
  const paths = new Map<number, string>();
  for (const { tokens, id, parent } of engine.scheduler.kv.prefixes.nodes()) {
    if (tokens.length < 16) continue;
    const above = parent && parent.id >= 0 ? `${paths.get(parent.id)},` : '';
    paths.set(id, `${above}${tokens}`);
  }
  return [...paths.values()];
}

/** Whether the same ids come each time: else the relay draws another seed. */
const repeatable = ({ request: { sampling } }: Served) => sampling.temperature === 0 || sampling.seed !== undefined;

test(`${COUNT} requests, with nodes that come and go: each stream is whole, and as it is in calm`, async () => {
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const fuzz = new Fuzz(WORLD, client, [Code.InvalidArgument]);
  const calm = new Map<number, Served>();
  await fuzz.run(COUNT, PARALLEL, seed, (served) => calm.set(served.at, served));

  const failovers = async () => {
    const text = await (await fetch(`http://127.0.0.1:${relay.webPort}/metrics`)).text();
    return Number(/^shoal:failovers_total\{.*\} (\d+)$/m.exec(text)?.[1]);
  };
  let compared = 0;
  let over = false;
  const kvEvents = client.stream(SglangScheduler.method.subscribeKvEvents, create(SubscribeKvEventsRequestSchema));
  const picture = new KvPicture();
  kvEvents.on('data', (batch: KvEventBatch) => picture.take(batch));
  kvEvents.on('error', () => {});
  const disturbed = disturb(() => over);
  const met = await fuzz
    .run(COUNT, PARALLEL, seed, (served) => {
      const before = calm.get(served.at);
      if (!before || !repeatable(served)) return;
      compared++;
      expect(served.outputs, `case ${served.at} of seed ${seed}`).toEqual(before.outputs);
    })
    .finally(() => {
      over = true;
    });
  const times = await disturbed;
  const moved = await failovers();
  console.log(`fuzz, seed ${seed}: ${times} nodes went, ${moved} requests moved, ${compared} compared:`, met);

  // The last nodes may have come at the very end: now they have something to cache.
  await fuzz.run(40, PARALLEL, seed, () => {});
  await until('nothing runs', 30_000, async () => (await loads()).every((load) => load.numTotalReqs === 0));
  await until('the engines are idle', 10_000, async () => [...nodes, ...gone].every(({ engine }) => engine.idle));
  const cached = () => [...new Set(nodes.flatMap(cachedBy))].sort();
  expect(cached().length).toBeGreaterThan(0);
  // A node that left before its relay knew it is gone with its lease.
  await until('gateways know what is cached', 10_000, async () => picture.prefixes.join(';') === cached().join(';'));
  for (const { engine } of [...nodes, ...gone]) {
    checkBlocks(engine.scheduler);
    engine.flushCache();
    expect(engine.scheduler.kv.free()).toBe(engine.scheduler.kv.groups[0]!.blocks);
  }
  await until('all grammars are closed', 10_000, async () =>
    grammars.every(({ opening, opened, closed }) => opening === 0 && opened === closed),
  );
  await until('gateways know that nothing is', 10_000, async () => picture.held.size === 0);
  kvEvents.cancel();
  // Else it says little.
  expect(moved).toBeGreaterThan(COUNT / 40);
  expect(compared).toBeGreaterThan(COUNT / 8);
});
