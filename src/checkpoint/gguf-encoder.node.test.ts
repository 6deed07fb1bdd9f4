import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { bytesSource } from './byte-source.ts';
import { openGguf } from './open-gguf.ts';
import { poolingFiles, readPooling } from './sentence-transformers.ts';
import { writeGgufEncoder } from './testing/write-gguf-encoder.ts';
import { readTokenizer } from './tokenizer.ts';

const TOKENS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'the', 'cat', '##s', 'sat', '.', 'cafe'];

async function open(more: Parameters<typeof writeGgufEncoder>[2] = {}) {
  const { checkpoint, raw } = await goldenBert();
  const file = await writeGgufEncoder(checkpoint, raw, { tokens: TOKENS, ...more });
  return openGguf(bytesSource('m.gguf', file));
}

async function goldenBert() {
  const folder = `${import.meta.dirname}/../testing/golden/tiny/bert`;
  const { openSafetensors } = await import('./safetensors.ts');
  const bytes = new Uint8Array(readFileSync(`${folder}/model.safetensors`));
  const raw = JSON.parse(readFileSync(`${folder}/config.json`, 'utf8')) as Record<string, unknown>;
  return { checkpoint: await openSafetensors(bytesSource('model.safetensors', bytes)), raw };
}

test("BERT's tensors come under Hugging Face's names, with their numbers, and the pooling that the file says", async () => {
  const { checkpoint, raw } = await goldenBert();
  const model = await open();
  expect(model.pooling).toEqual({ kind: 'mean', normalised: true });
  expect(model.config).toMatchObject({ architectures: ['BertModel'], modelType: 'bert' });
  for (const key of ['hidden_size', 'num_hidden_layers', 'intermediate_size', 'type_vocab_size', 'layer_norm_eps']) {
    expect(model.config.raw[key], key).toBe(raw[key]);
  }
  const kept = [...checkpoint.tensors.values()].filter(({ name }) => !/pooler|position_ids/.test(name));
  expect([...model.checkpoint.tensors.keys()].sort()).toEqual(kept.map(({ name }) => name).sort());
  for (const tensor of kept) {
    const same = model.checkpoint.tensors.get(tensor.name)!;
    expect(same.shape).toEqual(tensor.shape);
    expect(await model.checkpoint.read(same)).toEqual(await checkpoint.read(tensor));
  }
});

test('its WordPiece tokenizer is that of tokenizer.json: words, pieces, accents and pairs', async () => {
  const { tokenizerJson, tokenizerConfigJson } = await open();
  const { encodeTyped } = readTokenizer(tokenizerJson(), tokenizerConfigJson(), 'm.gguf');
  const of = (...names: string[]) => names.map((name) => TOKENS.indexOf(name));
  expect(encodeTyped('The CATS sat.').ids).toEqual(of('[CLS]', 'the', 'cat', '##s', 'sat', '.', '[SEP]'));
  expect(encodeTyped('café dogs').ids).toEqual(of('[CLS]', 'cafe', '[UNK]', '[SEP]'));
  expect(encodeTyped('cat', 'sat')).toEqual({
    ids: of('[CLS]', 'cat', '[SEP]', 'sat', '[SEP]'),
    typeIds: [0, 0, 0, 1, 1],
  });
  const cased = await open({ more: [['tokenizer.ggml.normalizer.lowercase', false]] });
  const kept = readTokenizer(cased.tokenizerJson(), cased.tokenizerConfigJson(), 'm.gguf');
  expect(kept.encodeTyped('The cat').ids).toEqual(of('[CLS]', '[UNK]', 'cat', '[SEP]'));
});

test.each([
  [{ metadata: { pooling_type: 4 } }, /bert\.pooling_type is 4 \(a ranker’s\)/],
  [{ metadata: { 'attention.causal': true } }, /bert\.attention\.causal is true/],
  [{ metadata: { 'classifier.output_labels': ['a', 'b'] } }, /bert\.classifier\.output_labels is not known/],
  [{ more: [['tokenizer.ggml.cls_token_id', 999]] }, /tokenizer\.ggml\.cls_token_id is 999 of/],
  [{ tokens: TOKENS.filter((token) => token !== '[SEP]') }, /seperator_token_id is missing/],
] as const)('%j is refused by name', async (how, message) => {
  await expect(open(how as Parameters<typeof open>[0])).rejects.toThrow(message);
});

test('without pooling_type nothing is said of vectors', async () => {
  expect((await open({ metadata: { pooling_type: 0 } })).pooling).toBeUndefined();
});

test.each(['mean', 'cls', 'last', 'max'] as const)(
  'pooling by %s is read again from the files that say so',
  async (kind) => {
    for (const normalised of [true, false]) {
      const files = new Map(poolingFiles({ kind, normalised }, 48));
      expect(await readPooling(async (name) => files.get(name), 48)).toEqual({ kind, normalised });
    }
  },
);
