// A node's session with the real relay over real connections that break: every token once and in order.
import { setTimeout } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { type Client, Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import {
  AttachRequestSchema,
  KvType,
  NodeCommandSchema,
  NodeRelay,
  Precision,
} from '../src/contract/gen/node_relay_pb.ts';
import { Engine } from '../src/engine/engine.ts';
import { letterTokens } from '../src/engine/testing/serve.ts';
import { CpuRunner } from '../src/model/cpu-runner.ts';
import { tinyModel } from '../src/model/testing/tiny-model.ts';
import { Session } from '../src/node/session.ts';
import type { SessionEnd, SessionKey, SessionOptions, SessionState } from '../src/node/session-options.ts';
import { nodeEvents, nodeLoad } from '../src/node/wire.ts';
import { type Relay, startRelay } from '../src/relay/relay.ts';
import { collect, failureOf, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

const VOCAB = 512;
const CONTEXT = 512;
const BUILD = { packageVersion: '0.0.0-test', pageHash: 'a'.repeat(64) };
const model = tinyModel(3, { vocabSize: VOCAB, contextLength: CONTEXT });

let relay: Relay;
let scheduler: SchedulerClient;

function openRelay(ports: { grpcPort?: number; webPort?: number } = {}): Promise<Relay> {
  return startRelay({
    model: 'models/stories260K',
    build: BUILD,
    grpcPort: 0,
    webPort: 0,
    leaseMs: 3_000,
    heartbeatMs: 300,
    closeGraceMs: 0,
    auditShare: 0,
    ...ports,
  });
}

beforeAll(async () => {
  relay = await openRelay();
  scheduler = schedulerClient({ host: '127.0.0.1', port: relay.grpcPort });
});

afterAll(() => relay.close());

/** Where a connection breaks, or brings what nobody knows; each is asked once a call. */
interface Faults {
  /** How long the first command of a stream takes, in milliseconds. */
  readonly welcomeMs?: number;
  /** A command of a later version, after the first. */
  readonly unknown?: { readonly required: boolean };
  /** A Report that never arrives, or whose answer doesn't. */
  report(): 'lostCall' | 'lostAnswer' | undefined;
  /** Commands after which a stream is cut; undefined: never. */
  cutAfter(): number | undefined;
}

const NO_FAULTS: Faults = { report: () => undefined, cutAfter: () => undefined };

function faultyClient(webPort: number, faults: Faults): Client<typeof NodeRelay> {
  const baseUrl = `http://127.0.0.1:${webPort}`;
  const client = createClient(NodeRelay, createConnectTransport({ baseUrl, useBinaryFormat: true }));
  const lost = () => new ConnectError('the connection broke', Code.Unavailable);
  return {
    ...client,
    async *attach(request, options) {
      const cut = new AbortController();
      const left = faults.cutAfter();
      let seen = 0;
      const signal = AbortSignal.any([cut.signal, ...(options?.signal ? [options.signal] : [])]);
      try {
        for await (const command of client.attach(request, { ...options, signal })) {
          if (seen === 0) await setTimeout(faults.welcomeMs ?? 0, undefined, { signal });
          yield command;
          if (faults.unknown && seen === 0) yield create(NodeCommandSchema, { required: faults.unknown.required });
          if (++seen > (left ?? Number.POSITIVE_INFINITY)) throw lost();
        }
      } finally {
        cut.abort();
      }
    },
    async report(request, options) {
      const fault = faults.report();
      if (fault === 'lostCall') throw lost();
      const answer = await client.report(request, options);
      if (fault === 'lostAnswer') throw lost();
      return answer;
    },
  };
}

interface TestNode {
  readonly session: Session;
  readonly engine: Engine;
  readonly ended: Promise<SessionEnd>;
  readonly states: SessionState[];
  readonly key: () => SessionKey | undefined;
  readonly hold: (paused: boolean) => void;
}

let nodes = 0;

async function openNode(webPort: number, digest: string, faults = NO_FAULTS, build = BUILD): Promise<TestNode> {
  const runner = await CpuRunner.load(model.checkpoint, model.config, { kvBlocks: 128, maxRows: 64, maxSequences: 8 });
  let session: Session | undefined;
  const engine = new Engine({
    runner,
    tokens: letterTokens(VOCAB),
    limits: { maxRunning: 8, maxWaiting: 64, prefillRows: 32, stepsInFlight: 2, policy: 'lpm', prefixCache: true },
    onEvents: (events) => session?.report(events.flatMap(nodeEvents)),
    now: () => performance.now(),
  });
  const states: SessionState[] = [];
  let key: SessionKey | undefined;
  let held = false;
  const options: SessionOptions = {
    client: faultyClient(webPort, faults),
    identity: create(AttachRequestSchema, {
      protocolVersion: 1,
      build,
      nodeId: `test-node-${++nodes}`,
      modelDigest: digest,
      precision: Precision.EXACT,
      kvType: KvType.F32,
      contextLength: CONTEXT,
      poolTokens: 128 * 16,
      maxRunning: 8,
      layers: { from: 0, to: 5 },
    }),
    target: engine,
    load: () => nodeLoad(engine.load(), { hidden: false, paused: held }),
    onState: (state) => states.push(state),
    onKey: (next) => {
      key = next;
    },
    // The shortest backoff: the jitter itself has a test of its own.
    random: () => 0,
  };
  session = new Session(options);
  const hold = (paused: boolean) => {
    held = paused;
    session?.tellLoad();
  };
  return { session, engine, states, ended: session.run(), key: () => key, hold };
}

async function close(node: TestNode): Promise<void> {
  node.session.leave();
  await within('the node to leave', 5_000, node.ended);
}

const request = (seed: number, more: object = {}) =>
  greedyRequest([1, 2 + (seed % 100), 3], {
    maxNewTokens: 90,
    ignoreEos: true,
    temperature: 1,
    customParams: { seed },
    ...more,
  });

const ids = async (seed: number) => idsOf(await collect(scheduler, request(seed)));

describe('a session over connections that break', () => {
  test('brings each token once and in order, more tokens than the credit too', async () => {
    const quiet = await openNode(relay.webPort, relay.model.digest);
    const expected = await Promise.all([1, 2, 3, 4].map(ids));
    await close(quiet);
    expect(expected.map((all) => all.length)).toEqual([90, 90, 90, 90]);

    const faultOf = fc.constantFrom('lostCall', 'lostAnswer', undefined, undefined, undefined, undefined);
    await fc.assert(
      fc.asyncProperty(
        fc.infiniteStream(faultOf),
        fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 4 }),
        async (reports, cuts) => {
          const left = [...cuts];
          const faults: Faults = { report: () => reports.next().value, cutAfter: () => left.shift() };
          const node = await openNode(relay.webPort, relay.model.digest, faults);
          const all = await within('four requests', 30_000, Promise.all([1, 2, 3, 4].map(ids)));
          expect(all).toEqual(expected);
          await close(node);
        },
      ),
      { numRuns: process.env.SHOAL_LONG === '1' ? 100 : 8, endOnFailure: true },
    );
  }, 600_000);

  test('goes on by itself with a restarted relay, and drops what the old one asked for', async () => {
    let first = await openRelay();
    const ports = { grpcPort: first.grpcPort, webPort: first.webPort };
    const own = schedulerClient({ host: '127.0.0.1', port: first.grpcPort });
    const node = await openNode(first.webPort, first.model.digest);
    const lost = failureOf(collect(own, request(5, { maxNewTokens: 500, n: 4 })));
    await until('the node to work', 10_000, async () => node.engine.load().running > 0);
    await first.close();
    expect((await lost).code).toBe('Unavailable');
    first = await openRelay(ports);
    expect(idsOf(await within('an answer', 10_000, collect(own, request(1)))).length).toBe(90);
    expect(node.states).toContain('reconnecting');
    expect(node.engine.load().running).toBe(0);
    await close(node);
    await first.close();
  }, 60_000);

  test('ends when it is refused, with what the relay says', async () => {
    const node = await openNode(relay.webPort, 'b'.repeat(64));
    const end = await within('the refusal', 5_000, node.ended);
    expect(end).toMatchObject({ why: 'refused', message: expect.stringContaining(relay.model.digest) });
  });

  test('ends on a required command that it does not know, and passes over others', async () => {
    const required = { ...NO_FAULTS, unknown: { required: true } };
    const refusing = await openNode(relay.webPort, relay.model.digest, required);
    const end = await within('the end', 5_000, refusing.ended);
    expect(end).toMatchObject({ why: 'refused', message: expect.stringMatching(/does not know/) });
    const tolerant = await openNode(relay.webPort, relay.model.digest, { ...NO_FAULTS, unknown: { required: false } });
    expect(await ids(1)).toHaveLength(90);
    await close(tolerant);
  });

  test('ends when the relay serves another build of the page', async () => {
    const node = await openNode(relay.webPort, relay.model.digest, NO_FAULTS, { ...BUILD, pageHash: 'b'.repeat(64) });
    expect(await within('the end', 5_000, node.ended)).toEqual({ why: 'other-build' });
  });

  test('leaves at once, also while it looks for a relay that is not there', async () => {
    const node = await openNode(1, relay.model.digest);
    await until('a failed attempt', 5_000, async () => node.states.includes('reconnecting'));
    await within('the node to leave', 1_000, close(node));
    expect(await node.ended).toEqual({ why: 'left' });
  });

  test('leaves no session behind, where its Attach is under way', async () => {
    const loads = async () => (await scheduler.getLoads({})).loads.length;
    const node = await openNode(relay.webPort, relay.model.digest, { ...NO_FAULTS, welcomeMs: 200 });
    await until('the relay to have it', 5_000, async () => (await loads()) === 1);
    expect(node.key()).toBeUndefined();
    node.session.leave();
    expect(await within('the end', 1_000, node.ended)).toEqual({ why: 'left' });
    expect(node.states).not.toContain('serving');
    // The next gets its rank: with its lease of 3 s it would still have it.
    const next = await openNode(relay.webPort, relay.model.digest);
    await until('the next', 1_000, async () => (await scheduler.getLoads({})).loads[0]?.dpRank === 0);
    await close(next);
  });

  test('held by its user it finishes what it has, gets nothing new, and goes on when let', async () => {
    const node = await openNode(relay.webPort, relay.model.digest);
    const running = collect(scheduler, request(1, { maxNewTokens: 300, n: 2 }));
    await until('the node to work', 10_000, async () => node.engine.load().running > 0);
    node.hold(true);
    const paused = async () => (await scheduler.getServerInfo({})).isPaused;
    await until('the relay to know', 2_000, paused);
    expect((await scheduler.healthCheck({})).healthy).toBe(false);
    const waiting = ids(2);
    expect((await within('what ran to end', 20_000, running)).completes.map((c) => c.finishReason)).toEqual([
      'length',
      'length',
    ]);
    expect(node.engine.idle).toBe(true);
    node.hold(false);
    expect(await within('what waited', 10_000, waiting)).toHaveLength(90);
    expect(await paused()).toBe(false);
    await close(node);
  });

  test('attaches afresh after a restart of the page that had said Detach', async () => {
    const node = await openNode(relay.webPort, relay.model.digest);
    expect(await ids(1)).toHaveLength(90);
    const { sessionToken, relayEpoch, sessionEpoch } = node.key()!;
    await faultyClient(relay.webPort, NO_FAULTS).detach({ sessionToken, relayEpoch, sessionEpoch });
    node.session.restart();
    expect(await within('an answer', 10_000, ids(2))).toHaveLength(90);
    await close(node);
  });
});
