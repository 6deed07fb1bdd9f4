import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  GetModelInfoRequestSchema,
  GetServerInfoRequestSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { TOKEN_IDS, writeEncoderFolder } from '../testing/encoder-folder.node.ts';
import { openModel } from './model/open-model.ts';
import type { ServedModel } from './served-model.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { vectorOf } from './testing/scripted-vectors.ts';
import { askVector, EMBEDDING_NODE, type EmbedInit, IDS, vectorRefusal } from './testing/vector-calls.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { method } = SglangScheduler;
const start = benchPerTest();

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

/** A relay that serves embeddings, with a node where it says so. */
const embeds = (options = {}) => start({ model: embedder, ...options });

test('LoRA adapters beside a model of vectors are refused when the relay starts', async () => {
  for (const options of [{ maxLoras: 1 }, { maxLoras: 1, loras: [{ name: 'a', path: home }] }]) {
    await expect(embeds(options)).rejects.toThrow('--lora and --max-loras need a model that generates text');
  }
});

describe('a vector', () => {
  test('comes in both forms at once', async () => {
    const on = await embeds();
    const node = await on.node(EMBEDDING_NODE);
    const response = await askVector(on, { requestId: 'embed-1' });
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
    const node = await on.node(EMBEDDING_NODE);
    const tokenTypeIds = [0, 0, 1, 1];
    expect((await askVector(on, { tokenTypeIds })).embedding).toEqual([...vectorOf(IDS, tokenTypeIds, 48)]);
    expect(node.embeds[0]?.inputs[0]?.tokenTypeIds).toEqual(tokenTypeIds);
  });

  test('comes over the web port, as JSON too', async () => {
    const on = await embeds();
    await on.node(EMBEDDING_NODE);
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
    const nodes = [
      await on.node({ ...EMBEDDING_NODE, maxRunning: 4 }),
      await on.node({ ...EMBEDDING_NODE, maxRunning: 4 }),
    ];
    const asked = Array.from({ length: 40 }, (_, at) => [2, 10 + at, 3]);
    const all = await Promise.all(asked.map((inputIds) => askVector(on, { tokenized: { inputIds } })));
    for (const [at, { embedding }] of all.entries()) expect(embedding).toEqual([...vectorOf(asked[at]!, [], 48)]);
    for (const node of nodes) expect(node.embeds.length).toBeGreaterThan(4);
    expect(nodes[0]!.embeds.length + nodes[1]!.embeds.length).toBe(40);
  });
});

describe('texts', () => {
  const ids = (...tokens: string[]) => tokens.map((token) => TOKEN_IDS.get(token)!);

  test('are tokenised here, and answered as a batch', async () => {
    const on = await embeds();
    const node = await on.node(EMBEDDING_NODE);
    const response = await askVector(on, { tokenized: undefined, texts: ['The cat sat.', 'a dog'] });
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
    const node = await on.node({ ...EMBEDDING_NODE, layers: 2, vectorSize: 1 });
    const { embedding } = await askVector(on, {
      tokenized: undefined,
      texts: ['the sky', 'blue'],
      isCrossEncoder: true,
    });
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
  await on.node({ ...EMBEDDING_NODE, layers: 2, vectorSize: 2 });
  expect((await askVector(on)).embedding).toEqual([...vectorOf(IDS, [], 2)]);
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
    const cases: readonly [EmbedInit, number, string][] = [
      [{ tokenized: undefined }, status.INVALID_ARGUMENT, 'tokenized'],
      [{ tokenTypeIds: [1] }, status.INVALID_ARGUMENT, 'token_type_ids'],
      [{ isCrossEncoder: true }, status.INVALID_ARGUMENT, 'is_cross_encoder'],
      [{ mmInputs: { imageUrls: ['x'] } }, status.UNIMPLEMENTED, 'mm_inputs'],
      [{ tokenized: { inputIds: new Array(49).fill(5) } }, status.INVALID_ARGUMENT, 'input_ids'],
    ];
    for (const [init, code, field] of cases) {
      const error = await vectorRefusal(on, init);
      expect([error.code, error.details]).toEqual([code, expect.stringContaining(field)]);
    }
    // Never in band, as EmbedError's message, code and details: a status is what both generations read.
    const nobody = await vectorRefusal(on);
    expect([nobody.code, nobody.details]).toEqual([status.UNAVAILABLE, 'No node is serving.']);
  });

  test('by a model that generates, and Generate by one that embeds', async () => {
    const generates = await start();
    const error = await vectorRefusal(generates);
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
