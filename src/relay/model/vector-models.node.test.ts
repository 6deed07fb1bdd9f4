import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { bytesSource } from '../../checkpoint/byte-source.ts';
import { parseManifest } from '../../checkpoint/manifest.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { writeGgufEncoder } from '../../checkpoint/testing/write-gguf-encoder.ts';
import { readTokenizer } from '../../checkpoint/tokenizer.ts';
import { type EncoderFolder, TOKEN_IDS, writeEncoderFolder } from '../../testing/encoder-folder.node.ts';
import { LocalHub } from '../testing/local-hub.ts';
import { Hub } from './hub.ts';
import { fetchHubModel } from './hub-model.ts';
import { type HubReference, readModelReference } from './model-reference.ts';
import { openModel } from './open-model.ts';

vi.setConfig({ testTimeout: 30_000 });

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-vectors-'));
});
afterEach(() => rmSync(home, { recursive: true }));

const NEEDED = [
  '1_Pooling/config.json',
  'config.json',
  'model.safetensors',
  'modules.json',
  'sentence_bert_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
];

const folder = (made: EncoderFolder) => writeEncoderFolder(join(home, 'model'), made);
const open = (made: EncoderFolder) => openModel(folder(made), { cache: join(home, 'cache') });
const write = (name: string, value: unknown) => writeFileSync(join(home, 'model', name), JSON.stringify(value));

test('a folder’s manifest has what says how vectors are made, in folders of their own', async () => {
  const model = await open({ name: 'bert', pools: true });
  expect(model.manifest.files.map(({ name }) => name)).toEqual(NEEDED);
  expect(parseManifest(model.manifestJson, 'it').files).toHaveLength(NEEDED.length);
  expect(model).toMatchObject({
    task: 'embed',
    contextLength: 48,
    vectors: { size: 48, normalised: true, classes: undefined, tokenTypes: 2, padding: undefined },
  });
});

test('nodes are told what it is for, and count no tensor that stays unread: an encoder has a pooler, and a classifier stands on it', async () => {
  const square = async (name: 'bert' | 'bert-classifier') => {
    const { about } = await open({ name });
    return [about.task, about.tensors!.find(({ shape }) => shape.join() === '48,48')!.count];
  };
  // q, k, v and what follows attention, of three layers, and of two.
  expect(await square('bert')).toEqual(['embed', 12]);
  expect(await square('bert-classifier')).toEqual(['classify', 9]);
});

test('a Dense module’s file comes with its model, whose vectors are as long as it says', async () => {
  const made = folder({ name: 'bert', pools: true });
  const modules = JSON.parse(readFileSync(join(made, 'modules.json'), 'utf8'));
  const dense = { idx: 2, name: '2', path: '2_Dense', type: 'sentence_transformers.models.Dense' };
  write('modules.json', modules.toSpliced(2, 0, dense));
  mkdirSync(join(made, '2_Dense'));
  write('2_Dense/config.json', { in_features: 48, out_features: 10, bias: false });
  const opened = () => openModel(made, { cache: join(home, 'cache') });
  await expect(opened()).rejects.toThrow('modules.json needs 2_Dense/model.safetensors, which is missing');
  write('2_Dense/model.safetensors', {});
  const model = await opened();
  expect(model.manifest.files.map(({ name }) => name)).toEqual(
    [...NEEDED, '2_Dense/config.json', '2_Dense/model.safetensors'].sort(),
  );
  expect(model.vectors!.size).toBe(10);
});

test('without such files vectors are normalised, as SGLang’s are; RoBERTa’s positions begin after the padding’s', async () => {
  expect(await open({ name: 'xlm-roberta' })).toMatchObject({
    contextLength: 64,
    vectors: { size: 48, normalised: true, tokenTypes: 1 },
  });
});

test('a hub’s model comes with them', async () => {
  const source = folder({ name: 'bert', pools: true });
  const files = Object.fromEntries(NEEDED.map((name) => [name, readFileSync(join(source, name))]));
  const hub = await LocalHub.start('someone/embedder', { ...files, '2_Other/config.json': Buffer.from('{}') });
  try {
    const reference = readModelReference('hf:someone/embedder') as HubReference;
    const options = { cache: join(home, 'cache'), onProgress: () => {} };
    const { path } = await fetchHubModel(reference, new Hub(new URL(hub.url), undefined, 5), options);
    expect(readdirSync(path, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())).toHaveLength(
      NEEDED.length,
    );
    const model = await openModel(path, { cache: join(home, 'cache') });
    expect(model.manifest.files.map(({ name }) => name)).toEqual(NEEDED);
  } finally {
    await hub.close();
  }
});

test.each(['..', '../other', '.hidden', '/etc', 'a/b'])(
  'modules.json can’t name a folder elsewhere: %s',
  async (path) => {
    const made = folder({ name: 'bert', pools: true });
    const modules = JSON.parse(readFileSync(join(made, 'modules.json'), 'utf8'));
    modules[1].path = path;
    write('modules.json', modules);
    await expect(openModel(made, { cache: join(home, 'cache') })).rejects.toThrow('which is no file of the model');
  },
);

test.each<[string, Record<string, unknown>, string]>([
  ['an activation', { sbert_ce_default_activation_function: 'torch.nn.modules.activation.Tanh' }, 'is not served'],
  ['classes that are not named one by one', { id2label: { 0: 'a', 2: 'b' } }, 'id2label'],
  ['a number of token types', { type_vocab_size: -1 }, 'type_vocab_size'],
])('a classifier is refused for %s', async (_what, config, message) => {
  await expect(open({ name: 'bert-classifier', config })).rejects.toThrow(message);
});

test('a tokenizer that fills texts up says with what', async () => {
  const made = folder({ name: 'bert', pools: true });
  const tokenizer = JSON.parse(readFileSync(join(made, 'tokenizer.json'), 'utf8'));
  write('tokenizer.json', { ...tokenizer, padding: { strategy: { Fixed: 32 }, direction: 'Left', pad_id: 0 } });
  const { vectors } = await openModel(made, { cache: join(home, 'cache') });
  expect(vectors?.padding).toEqual({ id: 0, side: 'left' });
});

test('a GGUF encoder makes vectors as its pooling_type says, and its tokenizer is the gateway’s and the relay’s', async () => {
  const source = folder({ name: 'bert' });
  const weights = await openSafetensors(
    bytesSource('m', new Uint8Array(readFileSync(join(source, 'model.safetensors')))),
  );
  const raw = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
  const tokens: string[] = [];
  for (const [token, id] of TOKEN_IDS) tokens[id] = token;
  const path = join(home, 'tiny.gguf');
  writeFileSync(path, await writeGgufEncoder(weights, raw, { tokens }));
  const model = await openModel(path, { cache: join(home, 'cache') });
  expect(model.manifest.files.map(({ name }) => name)).toEqual(['tiny.gguf']);
  expect(model).toMatchObject({ task: 'embed', contextLength: 64, vectors: { size: 48, normalised: true } });
  const read = (from: string, name: string) => readFileSync(join(from, name), 'utf8');
  const [own, theirs] = [model.folder, source].map((from) =>
    readTokenizer(read(from, 'tokenizer.json'), read(from, 'tokenizer_config.json'), from),
  );
  for (const [text, pair] of [
    ['The cats sat, slow!', undefined],
    ['a dog', 'ran on 9'],
  ] as const) {
    expect(own!.encodeTyped(text, pair)).toEqual(theirs!.encodeTyped(text, pair));
  }
});
