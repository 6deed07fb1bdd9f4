// Audits over the real protocol, between nodes of the real engine over the CPU's runner: honest ones whose kernels round
// differently, and liars.
import { pino } from 'pino';
import { afterEach, expect, test, vi } from 'vitest';
import { Precision } from '../src/contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { Random } from '../src/gpu/testing/random.ts';
import { type Relay, startRelay } from '../src/relay/relay.ts';
import { collect, GrpcClient } from '../src/relay/testing/grpc-client.ts';
import { requestOf } from '../src/relay/testing/relay-bench.ts';
import { coarseModel, reorderedModel } from './harness/coarse-model.ts';
import { type CpuNode, openCpuNode } from './harness/cpu-node.ts';
import { SHAPE, servedTinyModel, strictGrammars, TINY_MODEL } from './harness/fuzz-world.ts';
import { type LieRates, LyingRunner } from './harness/lying-runner.ts';
import { metric } from './harness/relay.ts';
import { until } from './harness/wait.ts';

vi.setConfig({ testTimeout: 3_600_000 });

const LONG = process.env.SHOAL_LONG === '1';
const OUTPUT = 16;

/** Kernels of nodes, by what they do to a weight; what they tell of their precision is true, but for `cheap`. */
const KERNELS = {
  exact: { model: TINY_MODEL, precision: Precision.EXACT },
  reordered: { model: reorderedModel(TINY_MODEL), precision: Precision.EXACT },
  coarse: { model: coarseModel(TINY_MODEL), precision: Precision.FAST },
  cheap: { model: coarseModel(TINY_MODEL, 5), precision: Precision.EXACT },
} as const;

/** What requests ask for; the last three are replayed, the others scored as a prompt. */
const SORTS: readonly { sampling: Parameters<typeof requestOf>[1]; embedded?: boolean }[] = [
  { sampling: { temperature: 0 } },
  { sampling: { temperature: 1 } },
  { sampling: { temperature: 0.7, topP: 0.9, topK: 12 } },
  { sampling: { temperature: 1.2, presencePenalty: 0.5, minP: 0.05 } },
  {
    sampling: {
      temperature: 1,
      constraint: { case: 'regex', value: JSON.stringify({ seed: 5, states: 4, density: 4, ends: 4 }) },
    },
  },
  { sampling: { temperature: 0.8, repetitionPenalty: 1.3 } },
  { sampling: { temperature: 1 }, embedded: true },
];

const lines: Record<string, unknown>[] = [];

class Fleet {
  readonly relay: Relay;
  readonly client: GrpcClient;
  readonly nodes: CpuNode[] = [];
  /** Requests that were answered, by id, with the ranks that had them, in order. */
  readonly over: { readonly requestId: string; readonly ranks: string }[] = [];
  readonly #random = new Random(3);
  readonly #sorts: typeof SORTS;
  #sent = 0;

  constructor(relay: Relay, sorts: typeof SORTS) {
    this.relay = relay;
    this.#sorts = sorts;
    this.client = new GrpcClient(relay.grpcPort);
  }

  static async start(sorts = SORTS): Promise<Fleet> {
    lines.length = 0;
    const relay = await startRelay({
      model: await servedTinyModel(),
      build: { packageVersion: '0.0.0-test', pageHash: 'a'.repeat(64) },
      ...{ grpcPort: 0, webPort: 0, closeGraceMs: 0, auditShare: 1, startWaitMs: 1_000, rejoinWaitMs: 1_000 },
      logger: pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line)) }),
    });
    return new Fleet(relay, sorts);
  }

  get webUrl(): string {
    return `http://127.0.0.1:${this.relay.webPort}`;
  }

  /** Opens a node; one with `lies` tells these. */
  async node(nodeId: string, kernels: keyof typeof KERNELS = 'exact', lies: LieRates = {}) {
    const { model: own, precision } = KERNELS[kernels];
    let runner: LyingRunner | undefined;
    const random = new Random(nodeId.length * 1_000 + this.nodes.length);
    const { webPort, model } = this.relay;
    const node = await openCpuNode({ webPort, digest: model.digest }, own, {
      ...{ nodeId, maxRunning: 8, kvBlocks: 64, precision, grammars: strictGrammars() },
      around: (inner) => {
        runner = new LyingRunner(inner, lies, () => random.uniform());
        return runner;
      },
    });
    const serving = this.nodes.push(node);
    // It may settle at once who lied.
    const out = async () => (await this.labelled(LIARS)) + (await this.labelled(FALSE));
    await until('it serves', 10_000, async () => (await this.count('shoal:nodes')) + (await out()) >= serving);
    return { node, runner: runner! };
  }

  /** So many requests, as many at a time as there are nodes, of every sort that audits redraw. */
  async ask(count: number): Promise<void> {
    for (let at = 0; at < count; at += 3) await Promise.all([this.#ask(), this.#ask(), this.#ask()]);
  }

  /** Three requests, one of them at a rank, which fails where that is lost: routing would pass over a node that began slowly. */
  async askAt(rank: number): Promise<void> {
    await Promise.all([this.#ask(), this.#ask(), this.#ask(rank)]);
  }

  async #ask(dataParallelRank?: number): Promise<void> {
    const inputIds = Array.from({ length: this.#random.integer(3, 20) }, () => this.#random.integer(3, 63));
    const sort = this.#sorts[this.#sent++ % this.#sorts.length]!;
    const embeds = sort.embedded ? { inputEmbeds: [...this.#random.normals(inputIds.length * SHAPE.hiddenSize)] } : {};
    const requestId = `request-${this.#sent}`;
    const rest = { requestId, ...embeds, ...(dataParallelRank === undefined ? {} : { dataParallelRank }) };
    const request = requestOf(inputIds, { ...sort.sampling, maxNewTokens: OUTPUT }, rest);
    const stream = this.client.stream(SglangScheduler.method.generate, request);
    let ranks = '';
    stream.on('status', ({ metadata }) => {
      ranks = String(metadata.get('x-shoal-ranks')[0]);
    });
    const { error } = await collect(stream);
    if (dataParallelRank === undefined) expect(error).toBeUndefined();
    if (!error) this.over.push({ requestId, ranks });
  }

  count(name: string): Promise<number> {
    return metric(this.webUrl, name).catch(() => 0);
  }

  /** Of a name and one label, such as `name outcome="passes"`. */
  async labelled(line: string): Promise<number> {
    const text = await (await fetch(`${this.webUrl}/metrics`)).text();
    const [name, ...labels] = line.split(' ');
    const found = text
      .split('\n')
      .find((one) => one.startsWith(`${name}{`) && labels.every((label) => one.includes(label)));
    return Number(found?.split(' ').at(-1) ?? 0);
  }

  async close(): Promise<void> {
    this.client.close();
    for (const { session } of this.nodes) session.leave();
    await Promise.all(this.nodes.map(({ ended }) => ended));
    await this.relay.close();
  }
}

let fleet: Fleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

const PASSED = 'shoal:audited_samples_total outcome="passes"';
const FAILED = 'shoal:audited_samples_total outcome="fails"';
const LIARS = 'shoal:settled_audits_total loser="maker"';
const FALSE = 'shoal:settled_audits_total loser="auditor"';

test('no honest node is put out, whatever their kernels round', async () => {
  fleet = await Fleet.start();
  for (const kernels of ['exact', 'reordered', 'coarse'] as const) await fleet.node(`${kernels}-node`, kernels);
  await fleet.node('second-coarse', 'coarse');
  const wanted = LONG ? 10_000 : 20;
  for (let asked = 0; (await fleet.labelled(PASSED)) < wanted && asked < 3 * wanted; asked += 12) await fleet.ask(12);
  const passed = await fleet.labelled(PASSED);
  const judged = await fleet.labelled('shoal:audited_steps_total verdict="agrees"');
  const open = await fleet.labelled('shoal:audited_steps_total verdict="open"');
  const differs = await fleet.labelled('shoal:audited_steps_total verdict="differs"');
  console.log(`${passed} audited samples pass; steps: ${judged} agree, ${differs} differ, ${open} open`);
  expect(passed).toBeGreaterThanOrEqual(wanted);
  expect(judged).toBeGreaterThan(4 * open);
  expect(lines.filter(({ msg }) => msg === 'sample failed its audit')).toEqual([]);
  expect(await fleet.labelled(FAILED)).toBe(0);
  if (LONG) expect(await fleet.labelled('shoal:audit_canaries_total outcome="known"')).toBeGreaterThan(0);
  expect(await fleet.count('shoal:nodes')).toBe(4);
  let shown = 0;
  for (const rank of [0, 1, 2, 3])
    shown += await fleet.labelled(`shoal:node_audited_samples dp_rank="${rank}" outcome="passes"`);
  expect(shown).toBeGreaterThanOrEqual(passed);
});

test('a node that lies in some of its samples is put out, and its samples are flagged', async () => {
  const rate = LONG ? 0.05 : 0.3;
  // A lie under a constraint its own engine ends, and replays count as samples here: those have a test of their own.
  fleet = await Fleet.start(SORTS.slice(0, 4));
  await fleet.node('exact-node');
  await fleet.node('coarse-node', 'coarse');
  const liar = await fleet.node('lying-node', 'exact', { samples: rate });
  for (let asked = 0; (await fleet.labelled(LIARS)) === 0 && asked < 900; asked += 3) await fleet.askAt(2);
  console.log(`out after ${liar.runner.made} samples, ${liar.runner.lied} of them lies`);
  expect(liar.runner.made).toBeLessThanOrEqual(200);
  // Four audits at most are under way when the first settles.
  expect(await fleet.labelled(LIARS)).toBeGreaterThan(0);
  expect(await fleet.labelled(LIARS)).toBeLessThanOrEqual(4);
  expect(await fleet.labelled(FALSE)).toBe(0);
  await until('it is out', 5_000, async () => (await fleet!.count('shoal:nodes')) === 2);
  // All that it alone answered is flagged, lies and others, and nothing that it was never given.
  const flagged = lines
    .filter(({ msg, node }) => msg === 'samples of a node that lied' && node === 'lying-node')
    .flatMap(({ samples }) => (samples as { request: string }[]).map(({ request }) => request));
  expect(await fleet.count('shoal:flagged_samples_total')).toBe(flagged.length);
  expect(new Set(flagged).size).toBe(flagged.length);
  const answered = (ranks: RegExp) => fleet!.over.filter((one) => ranks.test(one.ranks)).map((one) => one.requestId);
  expect(flagged).toEqual(expect.arrayContaining(answered(/^2$/)));
  const elsewhere = new Set(answered(/^[01](,[01])*$/));
  expect(flagged.filter((request) => elsewhere.has(request))).toEqual([]);
  expect(flagged.length).toBeGreaterThan(0);
  const settled = lines.find(({ msg }) => msg === 'audit settled');
  expect(settled).toMatchObject({ node: 'lying-node', loser: 'maker', job: expect.stringMatching(/^\d+$/) });
  // The others go on, and it doesn't come back.
  await fleet.ask(4);
  expect(await fleet.count('shoal:nodes')).toBe(2);
});

test('a cheaper model is found by a replay under a constraint, a repetition penalty and input embeddings', async () => {
  for (const sort of SORTS.slice(4)) {
    fleet = await Fleet.start([sort]);
    await fleet.node('exact-node');
    await fleet.node('reordered-node', 'reordered');
    // It keeps to the constraint, as its engine would end what doesn't.
    await fleet.node('lying-node', 'cheap');
    const lost = async () => (await fleet!.labelled(LIARS)) + (await fleet!.labelled(FALSE));
    for (let asked = 0; (await lost()) === 0 && asked < 300; asked += 3) await fleet.ask(3);
    const settled = lines.filter(({ msg }) => msg === 'audit settled');
    expect(settled.length, JSON.stringify(sort)).toBeGreaterThan(0);
    // Its scores are of that model too.
    for (const one of settled) expect(one[one.loser === 'maker' ? 'node' : 'auditor']).toBe('lying-node');
    await fleet.close();
    fleet = undefined;
  }
});

test('an auditor that lies is put out itself', async () => {
  fleet = await Fleet.start();
  await fleet.node('exact-node');
  await fleet.node('coarse-node', 'coarse');
  await fleet.node('lying-node', 'exact', { scores: 1 });
  for (let asked = 0; (await fleet.labelled(FALSE)) === 0 && asked < 150; asked += 3) await fleet.ask(3);
  expect(await fleet.labelled(FALSE)).toBeGreaterThan(0);
  expect(await fleet.labelled(FALSE)).toBeLessThanOrEqual(4);
  expect(await fleet.labelled(LIARS)).toBe(0);
  await until('it is out', 5_000, async () => (await fleet!.count('shoal:nodes')) === 2);
});

test('a node that says it is exact, and computes a cheaper model, is put out', async () => {
  fleet = await Fleet.start();
  await fleet.node('exact-node');
  await fleet.node('reordered-node', 'reordered');
  const { runner } = await fleet.node('cheap-node', 'cheap');
  for (let asked = 0; (await fleet.labelled(LIARS)) === 0 && asked < 900; asked += 3) await fleet.ask(3);
  console.log(`a cheaper model is out after ${runner.made} samples`);
  expect(runner.made).toBeLessThanOrEqual(200);
  expect(lines).toContainEqual(expect.objectContaining({ msg: 'audit settled', node: 'cheap-node', loser: 'maker' }));
  await until('it is out', 5_000, async () => (await fleet!.count('shoal:nodes')) === 2);
});

test('of two nodes that disagree both are suspected and neither is put out, until a third tells who lied', async () => {
  fleet = await Fleet.start();
  await fleet.node('exact-node');
  await fleet.node('lying-node', 'exact', { samples: 1 });
  const suspicions = (rank: number) => fleet!.labelled(`shoal:node_audit_suspicions dp_rank="${rank}"`);
  // Audits take what time requests leave.
  await until('a failed audit makes both suspected', 20_000, async () => {
    await fleet!.ask(3);
    return (await suspicions(1)) > 0;
  });
  await until('none is under way', 5_000, async () => (await suspicions(0)) === (await suspicions(1)));
  expect(lines).toContainEqual(
    expect.objectContaining({ msg: 'no third node settles a failed audit: both are suspected', node: 'lying-node' }),
  );
  expect([await fleet.labelled(LIARS), await fleet.labelled(FALSE)]).toEqual([0, 0]);
  expect(await fleet.count('shoal:nodes')).toBe(2);
  await fleet.node('third-node', 'reordered');
  await until('it is settled', 10_000, async () => (await fleet!.labelled(LIARS)) > 0);
  expect(await fleet.labelled(FALSE)).toBe(0);
  await until('the liar is out', 5_000, async () => (await fleet!.count('shoal:nodes')) === 2);
  expect(lines).toContainEqual(expect.objectContaining({ msg: 'audit settled', node: 'lying-node', loser: 'maker' }));
});
