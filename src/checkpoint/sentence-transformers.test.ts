import { expect, test } from 'vitest';
import { modelTask } from './model-task.ts';
import { readPooling } from './sentence-transformers.ts';

const MODULE = (name: string, path: string) => ({ type: `sentence_transformers.models.${name}`, path });
const MODULES = [MODULE('Transformer', ''), MODULE('Pooling', '1_Pooling'), MODULE('Normalize', '2_Normalize')];
const MEAN = { word_embedding_dimension: 384, pooling_mode_mean_tokens: true, pooling_mode_cls_token: false };

function read(files: Record<string, unknown>, hiddenSize = 384) {
  const readText = async (name: string) => (name in files ? JSON.stringify(files[name]) : undefined);
  return readPooling(readText, hiddenSize);
}

test('none without modules.json', async () => {
  expect(await read({ '1_Pooling/config.json': MEAN })).toBeUndefined();
});

test("MiniLM's files", async () => {
  const files = {
    'modules.json': MODULES,
    '1_Pooling/config.json': { ...MEAN, pooling_mode_mean_sqrt_len_tokens: false },
    'sentence_bert_config.json': { max_seq_length: 256, do_lower_case: false },
  };
  expect(await read(files)).toEqual({ kind: 'mean', normalised: true, maxLength: 256 });
});

test.each([
  [{ pooling_mode_cls_token: true, pooling_mode_mean_tokens: false }, 'cls'],
  [{ pooling_mode_lasttoken: true, include_prompt: true }, 'last'],
  [{ pooling_mode_max_tokens: true }, 'max'],
  [{ embedding_dimension: 384, pooling_mode: 'mean' }, 'mean'],
])('%j pools by %s', async (config, kind) => {
  const files = { 'modules.json': MODULES.slice(0, 2), '1_Pooling/config.json': config };
  expect(await read(files)).toEqual({ kind, normalised: false });
});

test.each([
  [{ 'modules.json': [...MODULES.slice(0, 2), MODULE('Dense', '2_Dense'), MODULES[2]] }, /models\.Dense/],
  [{ 'modules.json': [MODULES[0]] }, /no Pooling/],
  [{ 'modules.json': { 0: MODULES[0] } }, /no list/],
  [{ 'modules.json': MODULES, '1_Pooling/config.json': undefined }, /1_Pooling\/config\.json/],
  [{ '1_Pooling/config.json': { ...MEAN, pooling_mode_cls_token: true } }, /2 ways/],
  [{ '1_Pooling/config.json': { word_embedding_dimension: 384 } }, /0 ways/],
  [{ '1_Pooling/config.json': { ...MEAN, word_embedding_dimension: 768 } }, /768/],
  [{ '1_Pooling/config.json': { ...MEAN, pooling_mode_weightedmean_tokens: true } }, /weightedmean/],
  [{ '1_Pooling/config.json': { ...MEAN, include_prompt: false } }, /include_prompt/],
  [{ 'sentence_bert_config.json': { max_seq_length: 0 } }, /max_seq_length is 0/],
  [{ 'sentence_bert_config.json': { do_lower_case: true }, 'tokenizer.json': { normalizer: null } }, /do_lower_case/],
])('%j is refused', async (changed, message) => {
  const files: Record<string, unknown> = { 'modules.json': MODULES, '1_Pooling/config.json': MEAN, ...changed };
  for (const [name, value] of Object.entries(files)) if (value === undefined) delete files[name];
  await expect(read(files)).rejects.toThrow(message);
});

test('lower case is what the tokenizer makes of it', async () => {
  const files = {
    'modules.json': MODULES,
    '1_Pooling/config.json': MEAN,
    'sentence_bert_config.json': { max_seq_length: 512, do_lower_case: true },
    'tokenizer.json': { normalizer: { type: 'BertNormalizer', lowercase: true } },
  };
  expect(await read(files)).toMatchObject({ maxLength: 512 });
});

test.each([
  [false, ['BertModel'], 'embed'],
  [false, ['XLMRobertaForSequenceClassification'], 'classify'],
  [false, ['Qwen3ForCausalLM'], 'generate'],
  [true, ['Qwen3ForCausalLM'], 'embed'],
] as const)('a model that pools, %j, and is %j is to %s', (pools, architectures, task) => {
  expect(modelTask(pools, architectures)).toBe(task);
});
