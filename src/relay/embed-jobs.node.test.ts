import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  AbortRequestSchema,
  EmbedRequestSchema,
  GetLoadsRequestSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { writeEncoderFolder } from '../testing/encoder-folder.node.ts';
import { openModel } from './model/open-model.ts';
import type { ServedModel } from './served-model.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { embeddedEvent, vectorOf } from './testing/scripted-vectors.ts';
import { askVector, EMBEDDING_NODE, IDS, vectorRefusal } from './testing/vector-calls.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { method } = SglangScheduler;
const start = benchPerTest();

let home: string;
let embedder: ServedModel;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-embed-jobs-'));
  const folder = writeEncoderFolder(join(home, 'embedder'), { name: 'bert', pools: true });
  embedder = await openModel(folder, { cache: join(home, 'cache') });
});
afterAll(() => rmSync(home, { recursive: true }));

/** A relay that serves embeddings, with a node where it says so. */
const embeds = (options = {}) => start({ model: embedder, ...options });

describe('a job', () => {
  test('waits for the rank that it is pinned to', async () => {
    const on = await embeds();
    const nodes = [await on.node(EMBEDDING_NODE), await on.node(EMBEDDING_NODE)];
    for (const rank of [1, 0, 1]) await askVector(on, { dataParallelRank: rank });
    expect(nodes.map((node) => node.embeds.length)).toEqual([1, 2]);
  });

  test('goes elsewhere with what is left of it once its node is lost', async () => {
    const on = await embeds();
    const first = await on.node({ ...EMBEDDING_NODE, manual: true });
    const answer = askVector(on, { tokenized: undefined, texts: ['the cat', 'a dog'] });
    await first.until(() => first.embeds.length === 1);
    const [job] = first.embeds;
    const [one, two] = job!.inputs.map(({ inputIds }) => vectorOf(inputIds, [], 48));
    await first.tell(embeddedEvent(job!.jobId, 0, one!));
    await first.detach();
    const second = await on.node(EMBEDDING_NODE);
    const complete = (await answer).response.value;
    expect(complete).toMatchObject({ batchEmbeddings: [{ values: [...one!] }, { values: [...two!] }] });
    expect(second.embeds).toMatchObject([{ inputs: [{ index: 1 }] }]);
  });

  test('ends with ABORTED by Abort, with CANCELLED by its client, and the node is told', async () => {
    const on = await embeds();
    const node = await on.node({ ...EMBEDDING_NODE, manual: true });
    const aborted = vectorRefusal(on, { requestId: 'gone' });
    await node.until(() => node.embeds.length === 1);
    const { success } = await on.client.unary(method.abort, create(AbortRequestSchema, { requestId: 'gone' }));
    expect(success).toBe(true);
    expect((await aborted).code).toBe(status.ABORTED);
    await node.until(() => node.commandsOf('abort').length === 1);
    const leaves = new AbortController();
    const request = create(EmbedRequestSchema, { tokenized: { inputIds: IDS } });
    const left = on.client.unary(method.embed, request, leaves.signal);
    left.catch(() => {});
    await node.until(() => node.embeds.length === 2);
    leaves.abort();
    await expect(left).rejects.toMatchObject({ code: status.CANCELLED });
    await node.until(() => node.commandsOf('abort').length === 2);
  });

  test('counts in loads while it runs, and as a vector once it is made', async () => {
    const on = await embeds();
    const node = await on.node({ ...EMBEDDING_NODE, maxRunning: 2, manual: true });
    const all = ['a', 'b', 'c'].map((requestId) => askVector(on, { requestId, logMetrics: requestId === 'b' }));
    await node.until(() => node.embeds.length === 2);
    const loads = await on.client.unary(method.getLoads, create(GetLoadsRequestSchema));
    expect(loads.aggregate).toMatchObject({ totalRunningReqs: 2, totalWaitingReqs: 1 });
    const vector = vectorOf(IDS, [], 48);
    for (let at = 0; at < 3; at++) {
      await node.until(() => node.embeds.length > at);
      await node.tell(embeddedEvent(node.embeds[at]!.jobId, 0, vector));
    }
    await Promise.all(all);
    const metrics = await (await fetch(`${on.webUrl}/metrics`)).text();
    expect(metrics).toMatch(/^shoal:vectors_total\{.*\} 3$/m);
    expect(metrics).toMatch(/^shoal:embedded_tokens_total\{.*\} 12$/m);
    expect(metrics).toMatch(/^sglang:num_requests_total\{.*\} 3$/m);
    expect(metrics).toMatch(/^sglang:generation_tokens_histogram_count\{.*\} 0$/m);
  });

  test('whose vector takes too long ends with DEADLINE_EXCEEDED', async () => {
    const on = await embeds({ firstTokenMs: 200 });
    await on.node({ ...EMBEDDING_NODE, manual: true });
    expect((await vectorRefusal(on)).code).toBe(status.DEADLINE_EXCEEDED);
  });

  test('one of whose vectors came in time is not cut for the others', async () => {
    const on = await embeds({ firstTokenMs: 2_000 });
    const node = await on.node({ ...EMBEDDING_NODE, manual: true });
    const answer = askVector(on, { tokenized: undefined, texts: ['the cat', 'a dog'] });
    await node.until(() => node.embeds.length === 1);
    const [{ jobId, inputs }] = node.embeds as [(typeof node.embeds)[0]];
    const [one, two] = inputs.map(({ inputIds }) => vectorOf(inputIds, [], 48));
    await node.tell(embeddedEvent(jobId, 0, one!));
    await new Promise((resolve) => setTimeout(resolve, 2_200));
    await node.tell(embeddedEvent(jobId, 1, two!));
    expect((await answer).response.value).toMatchObject({ batchEmbeddings: [{ index: 0 }, { index: 1 }] });
  });

  test('with the id of one that runs is ALREADY_EXISTS, and a full queue RESOURCE_EXHAUSTED', async () => {
    const on = await embeds({ maxQueued: 1 });
    const node = await on.node({ ...EMBEDDING_NODE, maxRunning: 1, manual: true });
    void askVector(on, { requestId: 'same' }).catch(() => {});
    await node.until(() => node.embeds.length === 1);
    expect((await vectorRefusal(on, { requestId: 'same' })).code).toBe(status.ALREADY_EXISTS);
    void askVector(on).catch(() => {});
    await vi.waitFor(async () => {
      const loads = await on.client.unary(method.getLoads, create(GetLoadsRequestSchema));
      expect(loads.aggregate?.totalWaitingReqs).toBe(1);
    });
    expect((await vectorRefusal(on)).code).toBe(status.RESOURCE_EXHAUSTED);
  });
});

describe('a node that lies is put out, and the job goes on elsewhere', () => {
  const right = vectorOf(IDS, [], 48);
  const lies: readonly [string, Float32Array<ArrayBuffer>, number][] = [
    ['another size', right.slice(1), 0],
    ['a NaN', Float32Array.from(right, (value, at) => (at === 7 ? Number.NaN : value)), 0],
    ['not normalised', right.map((value) => value * 1.01), 0],
    ['an input that nobody asked for', right, 1],
  ];
  test.each(lies)('%s', async (_what, vector, index) => {
    const on = await embeds();
    const liar = await on.node({ ...EMBEDDING_NODE, manual: true });
    const answer = askVector(on);
    await liar.until(() => liar.embeds.length === 1);
    await liar.tell(embeddedEvent(liar.embeds[0]!.jobId, index, vector));
    expect(liar.reportError?.rawMessage).toContain("told what can't be");
    await on.node(EMBEDDING_NODE);
    expect((await answer).embedding).toEqual([...right]);
  });

  test('tokens, and an end without a vector', async () => {
    const on = await embeds();
    for (const event of [
      { case: 'tokens' as const, value: { tokenIds: [5] } },
      { case: 'finished' as const, value: { reason: 2 } },
    ]) {
      const liar = await on.node({ ...EMBEDDING_NODE, manual: true });
      void askVector(on).catch(() => {});
      await liar.until(() => liar.embeds.length >= 1);
      await liar.tell({ jobId: liar.embeds[0]!.jobId, event });
      expect(liar.reportError?.rawMessage).toContain('where a vector was asked for');
    }
  });
});
