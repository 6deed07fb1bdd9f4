import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../checkpoint/testing/write-safetensors.ts';
import { readTokenizer } from '../../checkpoint/tokenizer.ts';
import { cacheDir } from './cache-dir.ts';
import { hashFile } from './file-hashes.ts';
import { readModelReference } from './model-reference.ts';
import { openModel } from './open-model.ts';

const MODEL = fileURLToPath(new URL('../../../models/stories260K', import.meta.url));
const GGUF = fileURLToPath(new URL('../../testing/golden/gguf/stories260K-q8_0.gguf', import.meta.url));

let scratch: string;
let cache: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-model-'));
  cache = join(scratch, 'cache');
});
afterAll(() => rmSync(scratch, { recursive: true }));

function folder(name: string, files: Record<string, string | Uint8Array> = {}): string {
  const path = join(scratch, name);
  mkdirSync(path);
  for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content);
  return path;
}

describe('a folder', () => {
  test('is served by its name, with the files that are the model', async () => {
    const model = await openModel(MODEL, { cache });
    expect(model).toMatchObject({ name: 'stories260K', folder: MODEL, vocabSize: 512, layers: 5 });
    expect(model.manifest.quantisation).toBe('none');
    expect(Object.keys(model.paths)).toEqual([
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
  });

  test('is refused where no node knows its architecture, with those that are known', async () => {
    const names = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];
    const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(MODEL, name))]));
    const config = JSON.parse(files['config.json']!.toString());
    const falcon = JSON.stringify({ ...config, architectures: ['FalconForCausalLM'] });
    const path = folder('falcon', { ...files, 'config.json': falcon });
    await expect(openModel(path, { cache })).rejects.toThrow(
      /architectures are FalconForCausalLM; known: .*LlamaForCausalLM/,
    );
  });

  test('of a model that reads images is served as its text part, and counts no other', async () => {
    const tensor = (at: number) => ({ dtype: 'F32', shape: [1], data_offsets: [4 * at, 4 * at + 4] as const });
    const names = ['language_model.model.norm.weight', 'vision_tower.vision_model.post_layernorm.weight'];
    const config = {
      ...{ architectures: ['Gemma3ForConditionalGeneration'], model_type: 'gemma3', eos_token_id: [1, 106] },
      ...{ vision_config: { hidden_size: 32 }, mm_tokens_per_image: 256 },
      text_config: { model_type: 'gemma3_text', hidden_size: 2560, num_hidden_layers: 34, eos_token_id: 1 },
    };
    const path = folder('images', {
      'config.json': JSON.stringify(config),
      'model.safetensors': writeSafetensors(
        Object.fromEntries(names.map((name, at) => [name, tensor(at)])),
        new Uint8Array(8),
      ),
    });
    copyFileSync(join(MODEL, 'tokenizer.json'), join(path, 'tokenizer.json'));
    const model = await openModel(path, { cache });
    expect(model).toMatchObject({
      ...{ architectures: ['Gemma3ForConditionalGeneration'], modelType: 'gemma3', eosTokenIds: [1, 106] },
      ...{ vocabSize: 262_208, contextLength: 131_072, hiddenSize: 2560, layers: 34, task: 'generate' },
    });
    expect(model.about.tensors).toEqual([{ dtype: 'F32', shape: [1], count: 1 }]);
  });

  test('is another model for nodes that quantise it', async () => {
    const digests = await Promise.all(
      (['none', 'q8', 'q4'] as const).map(
        async (quantisation) => (await openModel(MODEL, { cache, quantisation })).digest,
      ),
    );
    expect(new Set(digests).size).toBe(3);
  });

  test('with shards has those that its index names', async () => {
    const shard = writeSafetensors({ a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] } }, new Uint8Array(4));
    const path = folder('sharded', {
      'one.safetensors': shard,
      'two.safetensors': shard,
      'model.safetensors.index.json': JSON.stringify({ weight_map: { a: 'two.safetensors' } }),
    });
    for (const name of ['config.json', 'tokenizer.json']) copyFileSync(join(MODEL, name), join(path, name));
    expect(Object.keys((await openModel(path, { cache })).paths)).toEqual([
      'config.json',
      'model.safetensors.index.json',
      'tokenizer.json',
      'two.safetensors',
    ]);
  });

  test.each([
    ['empty', {}, /config\.json is missing/],
    ['bare', { 'config.json': '{}' }, /tokenizer\.json is missing/],
    ['weightless', { 'config.json': '{}', 'tokenizer.json': '{}' }, /no \.safetensors file/],
    [
      'several',
      { 'config.json': '', 'tokenizer.json': '', 'a.safetensors': '', 'b.safetensors': '' },
      /2 \.safetensors files and no/,
    ],
    ['ggufs', { 'a.gguf': '', 'b.gguf': '' }, /2 \.gguf files; name one: a\.gguf, b\.gguf/],
    ['cut', { 'a.gguf': 'GGUF' }, /a\.gguf/],
  ] as const)('that is %s is refused with the reason', async (name, files, reason) => {
    await expect(openModel(folder(name, files), { cache })).rejects.toThrow(reason);
  });
});

describe('a .gguf file', () => {
  test('is all that nodes need, and has the tokenizer in a folder for gateways', async () => {
    const model = await openModel(GGUF, { cache });
    const { sha256 } = await hashFile(GGUF);
    expect(model).toMatchObject({
      name: 'stories260K-q8_0',
      folder: join(cache, 'gguf', sha256),
      paths: { 'stories260K-q8_0.gguf': GGUF },
      architectures: ['LlamaForCausalLM'],
      eosTokenIds: [2],
      bosTokenId: 1,
    });
    expect(model.manifest.files.map(({ name }) => name)).toEqual(['stories260K-q8_0.gguf']);
    expect(readdirSync(model.folder).sort()).toEqual([
      'config.json',
      'generation_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    const tokenizer = readTokenizer(
      readFileSync(join(model.folder, 'tokenizer.json'), 'utf8'),
      readFileSync(join(model.folder, 'tokenizer_config.json'), 'utf8'),
      model.folder,
    );
    expect(tokenizer.encode('Once upon a time')).toEqual([1, 403, 407, 261, 378]);
    expect(JSON.parse(readFileSync(join(model.folder, 'generation_config.json'), 'utf8'))).toMatchObject({
      eos_token_id: [2],
    });
  });

  test('alone in a folder is what the folder is', async () => {
    const path = folder('one');
    copyFileSync(GGUF, join(path, 'm.gguf'));
    expect(await openModel(path, { cache })).toMatchObject({ name: 'm', paths: { 'm.gguf': join(path, 'm.gguf') } });
  });

  test('brings its own formats', async () => {
    await expect(openModel(GGUF, { cache, quantisation: 'q4' })).rejects.toThrow('--quant q4 is for safetensors');
  });

  test('says where its tokenizer can’t be written', async () => {
    const file = join(scratch, 'file');
    writeFileSync(file, '');
    await expect(openModel(GGUF, { cache: file })).rejects.toThrow(
      /tokenizer of stories260K-q8_0\.gguf can't be written to/,
    );
  });
});

describe('hashes of a large file', () => {
  test('are remembered until it changes', async () => {
    const path = join(scratch, 'large.bin');
    const bytes = new Uint8Array(17 << 20);
    writeFileSync(path, bytes);
    const hashes = join(cache, 'hashes');
    const read: number[] = [];
    const hash = () => hashFile(path, hashes, (done) => void read.push(done));
    const first = await hash();
    expect(first.pieces).toHaveLength(17);
    expect(read).toHaveLength(17);
    expect(await hash()).toEqual(first);
    expect(read).toHaveLength(17);
    // As long, and another.
    bytes[5] = 1;
    writeFileSync(path, bytes);
    utimesSync(path, new Date(), new Date(statSync(path).mtimeMs + 1_000));
    const changed = await hash();
    expect(changed.sha256).not.toBe(first.sha256);
    expect(changed.pieces.map((piece, i) => piece === first.pieces[i])).toEqual([false, ...Array(16).fill(true)]);
  });
});

test.each([
  ['hf:a/b', { repository: 'a/b', revision: 'main', file: undefined }],
  ['hf:a/b@v1.0', { repository: 'a/b', revision: 'v1.0', file: undefined }],
  ['hf:a/b.c-d_e@refs%2Fpr%2F3/x/y z.gguf', { repository: 'a/b.c-d_e', revision: 'refs/pr/3', file: 'x/y z.gguf' }],
  ['hf:a/b/m.gguf', { repository: 'a/b', revision: 'main', file: 'm.gguf' }],
])('%s is read', (text, reference) => {
  expect(readModelReference(text)).toEqual({ kind: 'hub', ...reference });
});

test.each([
  'hf:',
  'hf:a',
  'hf:a/',
  'hf:a/b@',
  'hf:a/b@..',
  'hf:a/b@%',
  'hf:a/b/m.bin',
  'hf:a/b/../m.gguf',
  'hf:a/b//m.gguf',
  'hf:../b',
  'hf:a/b?x',
])('%s is no model of the hub', (text) => {
  expect(() => readModelReference(text)).toThrow(/is no model of the hub's: write hf:owner\/name/);
});

test('other paths are named', () => {
  expect(() => readModelReference(join(MODEL, 'nothing'))).toThrow(/there is no model at .*nothing/);
  expect(() => readModelReference(join(MODEL, 'config.json'))).toThrow(/neither a folder nor a \.gguf file/);
});

test('the cache is where the system has caches, or where SHOAL_CACHE says', () => {
  expect(cacheDir({ SHOAL_CACHE: '/x/y' }, 'linux')).toBe('/x/y');
  expect(cacheDir({ XDG_CACHE_HOME: '/x' }, 'linux')).toBe('/x/shoal');
  expect(cacheDir({}, 'linux')).toMatch(/\/\.cache\/shoal$/);
  expect(cacheDir({}, 'darwin')).toMatch(/\/Library\/Caches\/shoal$/);
  expect(cacheDir({ LOCALAPPDATA: '/a' }, 'win32')).toBe('/a/shoal/Cache');
});
