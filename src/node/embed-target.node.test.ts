import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { AttachRequestSchema, KvType, NodeRelay, Precision } from '../contract/gen/node_relay_pb.ts';
import { EmbedRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { Embedder } from '../engine/embedder.ts';
import { CpuEncoder } from '../model/cpu-encoder.ts';
import type { EmbedRunner, EmbedSequence } from '../model/embed-runner.ts';
import { encoderOf } from '../model/encoders.ts';
import { GOLDEN_SEQUENCES, goldenModel, largestDifference } from '../model/testing/golden-encoders.ts';
import { RelayBench } from '../relay/testing/relay-bench.ts';
import { writeEncoderFolder } from '../testing/encoder-folder.node.ts';
import { EmbedTarget } from './embed-target.ts';
import { Session } from './session.ts';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const LIMITS = { longest: 64, maxRows: 64, maxSequences: 4, contextLength: 48, vocabSize: 361, tokenTypes: 2 };

/** The encoder in float64, as a GPU's runner; `gate` holds its steps. */
async function cpuRunner(gate: () => Promise<void>): Promise<EmbedRunner> {
  const { config, checkpoint } = await goldenModel('bert');
  const family = encoderOf(config);
  const read = family.readConfig(config);
  const names = family.tensorNames(read, (name) => checkpoint.tensors.has(name));
  const encoder = new CpuEncoder(read, names, checkpoint);
  return {
    ...{
      kind: 'embedding' as const,
      dimension: 48,
      limits: LIMITS,
      weightBytes: 0,
      allocatedBytes: 0,
      destroy: () => {},
    },
    async embed(sequences: readonly EmbedSequence[]) {
      await gate();
      const vectors = sequences.map(async (one) => Float32Array.from(await encoder.embed(one, 'mean', true)));
      return Promise.all(vectors);
    },
  };
}

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'shoal-embed-target-'));
  writeEncoderFolder(join(home, 'bert'), { name: 'bert', pools: true });
});
afterAll(() => rm(home, { recursive: true }));

let on: RelayBench;
let session: Session;
let embedder: Embedder;
let hold: Promise<void> | undefined;
beforeEach(async () => {
  hold = undefined;
  on = await RelayBench.start({ model: join(home, 'bert'), cacheDir: join(home, 'cache'), heartbeatMs: 50 });
  const runner = await cpuRunner(async () => hold);
  embedder = new Embedder({ runner, maxWaiting: 256, now: () => performance.now() });
  const target = new EmbedTarget(embedder, (events) => session.report(events));
  session = new Session({
    client: createClient(NodeRelay, createConnectTransport({ baseUrl: on.webUrl, useBinaryFormat: true })),
    identity: create(AttachRequestSchema, {
      ...{ protocolVersion: 1, nodeId: 'an-embedder', modelDigest: on.relay.model.digest },
      ...{ precision: Precision.EXACT, kvType: KvType.F32, layers: { from: 0, to: 3 } },
      ...{ contextLength: 48, poolTokens: 4096, maxRunning: 8 },
    }),
    target,
    load: () => ({}),
    onState: () => {},
    onKey: () => {},
    random: () => 0,
  });
  ended = session.run();
});
let ended: Promise<unknown>;
afterEach(async () => {
  session.leave();
  await ended;
  await on.end();
});

const { embed } = SglangScheduler.method;

function ask(inputIds: number[], signal?: AbortSignal) {
  return on.client.unary(embed, create(EmbedRequestSchema, { tokenized: { inputIds } }), signal);
}

test('golden vectors, from a node through the relay', async () => {
  const golden = await goldenModel('bert');
  for (const n of GOLDEN_SEQUENCES) {
    const { embedding, promptTokens } = await ask(Array.from((await golden.sequence(n)).ids));
    expect(promptTokens).toBe([5, 19, 48][n]);
    expect(largestDifference(embedding, (await golden.golden(`mean_${n}`))!)).toBeLessThan(1e-4);
  }
});

test('a client that leaves takes its input out of the queue, and what follows is unharmed', async () => {
  let release = () => {};
  hold = new Promise((resolve) => {
    release = resolve;
  });
  const running = [ask([2, 5, 3]), ask([2, 6, 3])];
  await vi.waitFor(() => expect(embedder.load().requestsTaken).toBe(2));
  const leaves = new AbortController();
  const left = ask([2, 7, 3], leaves.signal);
  left.catch(() => {});
  await vi.waitFor(() => expect(embedder.load().requestsTaken).toBe(3));
  leaves.abort();
  await expect(left).rejects.toMatchObject({ code: status.CANCELLED });
  release();
  for (const { embedding } of await Promise.all(running)) expect(embedding).toHaveLength(48);
  expect((await ask([2, 8, 3])).embedding).toHaveLength(48);
});
