import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  AbortRequestSchema,
  EmbedRequestSchema,
  type EmbedResponse,
  GetLoadsRequestSchema,
  GetModelInfoRequestSchema,
  GetServerInfoRequestSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { TOKEN_IDS, writeEncoderFolder } from '../testing/encoder-folder.node.ts';
import { openModel } from './model/open-model.ts';
import type { ServedModel } from './served-model.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { type RelayBench, requestOf } from './testing/relay-bench.ts';
import { embeddedEvent, vectorOf } from './testing/scripted-vectors.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { method } = SglangScheduler;
const start = benchPerTest();
const IDS = [2, 9, 100, 3];

let home: string;
let embedder: ServedModel;
let scorer: ServedModel;
let classifier: ServedModel;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-embed-'));
  const open = (name: string, folder: Parameters<typeof writeEncoderFolder>[1]) =>
    openModel(writeEncoderFolder(join(home, name), folder), { cache: join(home, 'cache') });
  const sigmoid = { sbert_ce_default_activation_function: 'torch.nn.modules.activation.Sigmoid' };
  embedder = await open('embedder', { name: 'bert', pools: true });
  scorer = await open('scorer', { name: 'bert-classifier', config: sigmoid });
  classifier = await open('classifier', { name: 'bert-classifier', config: { id2label: { 1: 'bad', 0: 'good' } } });
});
afterAll(() => rmSync(home, { recursive: true }));

type Init = MessageInitShape<typeof EmbedRequestSchema>;

function ask(on: RelayBench, init: Init = {}): Promise<EmbedResponse> {
  const request = create(EmbedRequestSchema, { tokenized: { inputIds: IDS }, ...(init as object) });
  return on.client.unary(method.embed, request);
}

function refusal(on: RelayBench, init: Init = {}): Promise<ServiceError> {
  return ask(on, init).then(
    () => Promise.reject(new Error('the call went well')),
    (error: ServiceError) => error,
  );
}

/** A relay that serves embeddings, with a node where it says so. */
const embeds = (options = {}) => start({ model: embedder, ...options });

const LAYERS = { layers: 3, contextLength: 48, vectorSize: 48 };

describe('a vector', () => {
  test('comes in both forms at once', async () => {
    const on = await embeds();
    const node = await on.node(LAYERS);
    const response = await ask(on, { requestId: 'embed-1' });
    const values = [...vectorOf(IDS, [], 48)];
    expect(response).toMatchObject({ requestId: 'embed-1', embeddingDim: 48, promptTokens: 4, embedding: values });
    expect(response.response).toMatchObject({
      case: 'complete',
      value: { embedding: values, promptTokens: 4, cachedTokens: 0, embeddingDim: 48, batchEmbeddings: [] },
    });
    expect(node.embeds).toMatchObject([{ inputs: [{ index: 0, inputIds: IDS, tokenTypeIds: [] }] }]);
  });

  test('is of token types, which reach the node', async () => {
    const on = await embeds();
    const node = await on.node(LAYERS);
    const tokenTypeIds = [0, 0, 1, 1];
    expect((await ask(on, { tokenTypeIds })).embedding).toEqual([...vectorOf(IDS, tokenTypeIds, 48)]);
    expect(node.embeds[0]?.inputs[0]?.tokenTypeIds).toEqual(tokenTypeIds);
  });

  test('comes over the web port, as JSON too', async () => {
    const on = await embeds();
    await on.node(LAYERS);
    const response = await fetch(`${on.webUrl}/${SglangScheduler.typeName}/Embed`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ texts: ['the cat', 'a dog'] }),
    });
    const body = (await response.json()) as { embedding: number[]; complete: { batchEmbeddings: object[] } };
    expect(body.embedding).toHaveLength(48);
    expect(body.complete.batchEmbeddings).toHaveLength(2);
  });

  test('is one of many that were asked for together, each its own', async () => {
    const on = await embeds();
    const nodes = [await on.node({ ...LAYERS, maxRunning: 4 }), await on.node({ ...LAYERS, maxRunning: 4 })];
    const asked = Array.from({ length: 40 }, (_, at) => [2, 10 + at, 3]);
    const all = await Promise.all(asked.map((inputIds) => ask(on, { tokenized: { inputIds } })));
    for (const [at, { embedding }] of all.entries()) expect(embedding).toEqual([...vectorOf(asked[at]!, [], 48)]);
    for (const node of nodes) expect(node.embeds.length).toBeGreaterThan(4);
    expect(nodes[0]!.embeds.length + nodes[1]!.embeds.length).toBe(40);
  });
});

describe('texts', () => {
  const ids = (...tokens: string[]) => tokens.map((token) => TOKEN_IDS.get(token)!);

  test('are tokenised here, and answered as a batch', async () => {
    const on = await embeds();
    const node = await on.node(LAYERS);
    const response = await ask(on, { tokenized: undefined, texts: ['The cat sat.', 'a dog'] });
    const first = ids('[CLS]', 'the', 'cat', 'sat', '.', '[SEP]');
    const second = ids('[CLS]', 'a', 'dog', '[SEP]');
    expect(node.embeds[0]?.inputs.map(({ inputIds }) => inputIds)).toEqual([first, second]);
    const vectors = [vectorOf(first, [], 48), vectorOf(second, [], 48)].map((vector) => [...vector]);
    expect(response).toMatchObject({ embedding: vectors[0], promptTokens: 10 });
    expect(response.response.value).toMatchObject({
      embedding: vectors[0],
      batchEmbeddings: [
        { index: 0, values: vectors[0] },
        { index: 1, values: vectors[1] },
      ],
    });
  });

  test('are pairs for a cross-encoder, with types', async () => {
    const on = await start({ model: scorer });
    const node = await on.node({ ...LAYERS, layers: 2, vectorSize: 1 });
    const { embedding } = await ask(on, { tokenized: undefined, texts: ['the sky', 'blue'], isCrossEncoder: true });
    const pair = ids('[CLS]', 'the', 'sky', '[SEP]', 'blue', '[SEP]');
    const types = [0, 0, 0, 0, 1, 1];
    expect(node.embeds[0]?.inputs).toMatchObject([{ inputIds: pair, tokenTypeIds: types }]);
    // Its files name the sigmoid.
    const [logit] = vectorOf(pair, types, 1);
    expect(embedding[0]).toBeCloseTo(1 / (1 + Math.exp(-logit!)), 6);
  });
});

test('a classifier tells its logits, and its classes by name', async () => {
  const on = await start({ model: classifier });
  await on.node({ ...LAYERS, layers: 2, vectorSize: 2 });
  expect((await ask(on)).embedding).toEqual([...vectorOf(IDS, [], 2)]);
  const info = await on.client.unary(method.getModelInfo, create(GetModelInfoRequestSchema));
  expect(info).toMatchObject({ isGeneration: false, id2labelJson: '{"0":"good","1":"bad"}', numLabels: 2 });
});

test('what the model is for, for a gateway', async () => {
  const on = await embeds();
  const info = await on.client.unary(method.getModelInfo, create(GetModelInfoRequestSchema));
  expect(info).toMatchObject({
    isGeneration: false,
    modelType: 'bert',
    architectures: ['BertModel'],
    // Below the model's 64 positions: the files of sentence-transformers say so.
    maxContextLength: 48,
    id2labelJson: '',
    numLabels: 0,
  });
  const { serverArgs } = await on.client.unary(method.getServerInfo, create(GetServerInfoRequestSchema));
  expect(serverArgs).toMatchObject({ is_embedding: true, context_length: 48 });
  expect(on.relay.model.manifest.files.map(({ name }) => name)).toContain('1_Pooling/config.json');
  const file = await fetch(`${on.webUrl}/model/files/1_Pooling/config.json`);
  expect(await file.json()).toMatchObject({ pooling_mode_mean_tokens: true });
});

describe('is refused', () => {
  test('by name, with the status of its mistake', async () => {
    const on = await embeds({ startWaitMs: 0 });
    const cases: readonly [Init, number, string][] = [
      [{ tokenized: undefined }, status.INVALID_ARGUMENT, 'tokenized'],
      [{ tokenTypeIds: [1] }, status.INVALID_ARGUMENT, 'token_type_ids'],
      [{ isCrossEncoder: true }, status.INVALID_ARGUMENT, 'is_cross_encoder'],
      [{ mmInputs: { imageUrls: ['x'] } }, status.UNIMPLEMENTED, 'mm_inputs'],
      [{ tokenized: { inputIds: new Array(49).fill(5) } }, status.INVALID_ARGUMENT, 'input_ids'],
    ];
    for (const [init, code, field] of cases) {
      const error = await refusal(on, init);
      expect([error.code, error.details]).toEqual([code, expect.stringContaining(field)]);
    }
    // Never in band, as EmbedError's message, code and details: a status is what both generations read.
    const nobody = await refusal(on);
    expect([nobody.code, nobody.details]).toEqual([status.UNAVAILABLE, 'No node is serving.']);
  });

  test('by a model that generates, and Generate by one that embeds', async () => {
    const generates = await start();
    const error = await refusal(generates);
    expect([error.code, error.details]).toEqual([
      status.UNIMPLEMENTED,
      'Embed is not served: the model stories260K generates text.',
    ]);
    await generates.end();
    const on = await embeds();
    const { error: other } = await collect(on.client.stream(method.generate, requestOf([5])));
    expect([other?.code, other?.details]).toEqual([
      status.UNIMPLEMENTED,
      'Generate is not served: the model embedder makes embeddings.',
    ]);
  });
});

describe('a job', () => {
  test('waits for the rank that it is pinned to', async () => {
    const on = await embeds();
    const nodes = [await on.node(LAYERS), await on.node(LAYERS)];
    for (const rank of [1, 0, 1]) await ask(on, { dataParallelRank: rank });
    expect(nodes.map((node) => node.embeds.length)).toEqual([1, 2]);
  });

  test('goes elsewhere with what is left of it once its node is lost', async () => {
    const on = await embeds();
    const first = await on.node({ ...LAYERS, manual: true });
    const answer = ask(on, { tokenized: undefined, texts: ['the cat', 'a dog'] });
    await first.until(() => first.embeds.length === 1);
    const [job] = first.embeds;
    const [one, two] = job!.inputs.map(({ inputIds }) => vectorOf(inputIds, [], 48));
    await first.tell(embeddedEvent(job!.jobId, 0, one!));
    await first.detach();
    const second = await on.node(LAYERS);
    const complete = (await answer).response.value;
    expect(complete).toMatchObject({ batchEmbeddings: [{ values: [...one!] }, { values: [...two!] }] });
    expect(second.embeds).toMatchObject([{ inputs: [{ index: 1 }] }]);
  });

  test('ends with ABORTED by Abort, with CANCELLED by its client, and the node is told', async () => {
    const on = await embeds();
    const node = await on.node({ ...LAYERS, manual: true });
    const aborted = refusal(on, { requestId: 'gone' });
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
    const node = await on.node({ ...LAYERS, maxRunning: 2, manual: true });
    const all = ['a', 'b', 'c'].map((requestId) => ask(on, { requestId, logMetrics: requestId === 'b' }));
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
    await on.node({ ...LAYERS, manual: true });
    expect((await refusal(on)).code).toBe(status.DEADLINE_EXCEEDED);
  });

  test('one of whose vectors came in time is not cut for the others', async () => {
    const on = await embeds({ firstTokenMs: 2_000 });
    const node = await on.node({ ...LAYERS, manual: true });
    const answer = ask(on, { tokenized: undefined, texts: ['the cat', 'a dog'] });
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
    const node = await on.node({ ...LAYERS, maxRunning: 1, manual: true });
    void ask(on, { requestId: 'same' }).catch(() => {});
    await node.until(() => node.embeds.length === 1);
    expect((await refusal(on, { requestId: 'same' })).code).toBe(status.ALREADY_EXISTS);
    void ask(on).catch(() => {});
    await vi.waitFor(async () => {
      const loads = await on.client.unary(method.getLoads, create(GetLoadsRequestSchema));
      expect(loads.aggregate?.totalWaitingReqs).toBe(1);
    });
    expect((await refusal(on)).code).toBe(status.RESOURCE_EXHAUSTED);
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
    const liar = await on.node({ ...LAYERS, manual: true });
    const answer = ask(on);
    await liar.until(() => liar.embeds.length === 1);
    await liar.tell(embeddedEvent(liar.embeds[0]!.jobId, index, vector));
    expect(liar.reportError?.rawMessage).toContain("told what can't be");
    await on.node(LAYERS);
    expect((await answer).embedding).toEqual([...right]);
  });

  test('tokens, and an end without a vector', async () => {
    const on = await embeds();
    for (const event of [
      { case: 'tokens' as const, value: { tokenIds: [5] } },
      { case: 'finished' as const, value: { reason: 2 } },
    ]) {
      const liar = await on.node({ ...LAYERS, manual: true });
      void ask(on).catch(() => {});
      await liar.until(() => liar.embeds.length >= 1);
      await liar.tell({ jobId: liar.embeds[0]!.jobId, event });
      expect(liar.reportError?.rawMessage).toContain('where a vector was asked for');
    }
  });
});
