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

const DENSE = {
  in_features: 384,
  out_features: 100,
  bias: true,
  activation_function: 'torch.nn.modules.activation.Tanh',
};
const DENSE_MODULES = [
  ...MODULES.slice(0, 2),
  MODULE('Dense', '2_Dense'),
  MODULE('Dense', '3_Dense'),
  MODULE('Normalize', ''),
];

test("LaBSE's Dense comes after the pooling, another after it", async () => {
  const files = {
    'modules.json': DENSE_MODULES,
    '1_Pooling/config.json': MEAN,
    '2_Dense/config.json': DENSE,
    '3_Dense/config.json': {
      ...{ in_features: 100, out_features: 7, bias: false, activation_function: 'torch.nn.modules.linear.Identity' },
      ...{ module_input_name: 'sentence_embedding', module_output_name: 'sentence_embedding' },
    },
  };
  expect(await read(files)).toEqual({
    kind: 'mean',
    normalised: true,
    dense: [
      { file: '2_Dense/model.safetensors', inputs: 384, outputs: 100, bias: true, activation: 'tanh' },
      { file: '3_Dense/model.safetensors', inputs: 100, outputs: 7, bias: false, activation: 'identity' },
    ],
  });
});

test.each([
  [{ in_features: 383 }, /2_Dense\/config\.json: in_features is 383, and 384 numbers come before it/],
  [{ out_features: 0 }, /out_features is 0, not a size/],
  [{ bias: 'yes' }, /bias is "yes"/],
  [
    { activation_function: 'torch.nn.modules.activation.ReLU' },
    /activation_function is .*ReLU.*Tanh.*Identity are served/,
  ],
  [{ module_input_name: 'token_embeddings' }, /module_input_name is "token_embeddings", which is not served/],
])('a Dense with %j is refused', async (changed, message) => {
  const files = {
    'modules.json': DENSE_MODULES.toSpliced(3, 1),
    '1_Pooling/config.json': MEAN,
    '2_Dense/config.json': { ...DENSE, ...changed },
  };
  await expect(read(files)).rejects.toThrow(message);
});

test.each([
  [
    { 'modules.json': [...MODULES.slice(0, 2), MODULE('Dense', '2_Dense'), MODULES[2]] },
    /2_Dense\/config\.json, which is missing/,
  ],
  [{ 'modules.json': [...MODULES.slice(0, 2), MODULE('LayerNorm', '2_LayerNorm'), MODULES[2]] }, /models\.LayerNorm/],
  [{ 'modules.json': [MODULES[0], MODULE('Dense', '1_Dense'), MODULES[1]] }, /module 1 is .*Dense/],
  [{ 'modules.json': [...MODULES, MODULE('Dense', '3_Dense')] }, /module 2 is .*Normalize/],
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
