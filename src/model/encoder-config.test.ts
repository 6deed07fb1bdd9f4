import { describe, expect, test } from 'vitest';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { encoderOf, findEncoder } from './encoders.ts';

const BERT = {
  architectures: ['BertModel'],
  model_type: 'bert',
  hidden_act: 'gelu',
  hidden_size: 48,
  intermediate_size: 140,
  layer_norm_eps: 1e-12,
  max_position_embeddings: 64,
  num_attention_heads: 4,
  num_hidden_layers: 3,
  pad_token_id: 0,
  position_embedding_type: 'absolute',
  type_vocab_size: 2,
  vocab_size: 361,
};
const ROBERTA = { ...BERT, architectures: ['XLMRobertaModel'], model_type: 'xlm-roberta', pad_token_id: 1 };

function read(raw: object) {
  const config = parseModelConfig(JSON.stringify(raw), 'config.json');
  return encoderOf(config).readConfig(config);
}

test("BERT's numbers", () => {
  expect(read(BERT)).toEqual({
    ...{ architecture: 'BertModel', vocabSize: 361, contextLength: 64, hiddenSize: 48, layers: 3, heads: 4 },
    ...{ headSize: 12, intermediateSize: 140, activation: 'gelu', normEpsilon: 1e-12, positions: 64, tokenTypes: 2 },
  });
});

test("XLM-R's positions begin after the padding id's", () => {
  expect(read(ROBERTA)).toMatchObject({ positions: 64, positionPad: 1, contextLength: 62 });
  expect(read({ ...ROBERTA, pad_token_id: 5 })).toMatchObject({ positionPad: 5, contextLength: 58 });
  expect(() => read({ ...ROBERTA, pad_token_id: 63 })).toThrow(/max_position_embeddings is 64/);
});

describe('a classifier', () => {
  const classifier = { ...BERT, architectures: ['BertForSequenceClassification'] };

  test.each([
    [{}, ['LABEL_0', 'LABEL_1']],
    [{ num_labels: 1 }, ['LABEL_0']],
    [{ id2label: { 1: 'no', 0: 'yes' }, num_labels: 2 }, ['yes', 'no']],
    [{ id2label: { 0: 'x' }, sentence_transformers: { activation_fn: 'torch.nn.modules.linear.Identity' } }, ['x']],
  ])('of %j has %j', (more, labels) => {
    expect(read({ ...classifier, ...more }).classifier).toEqual({ labels });
  });

  test.each([
    [{ id2label: { 0: 'a', 2: 'b' } }, /id2label/],
    [{ id2label: {} }, /id2label/],
    [{ id2label: { 0: 'a' }, num_labels: 2 }, /num_labels is 2/],
    [{ num_labels: 0 }, /num_labels/],
  ])('of %j is refused', (more, message) => {
    expect(() => read({ ...classifier, ...more })).toThrow(message);
  });
});

test.each([
  [{ position_embedding_type: 'relative_key' }, /position_embedding_type is "relative_key"/],
  [{ hidden_act: 'silu' }, /hidden_act is "silu"/],
  [{ hidden_act: 'mish' }, /hidden_act is "mish"/],
  [{ is_decoder: true }, /is_decoder is true/],
  [{ add_cross_attention: true }, /add_cross_attention is true/],
  [{ num_attention_heads: 5 }, /num_attention_heads is 5/],
  [{ num_attention_heads: 8 }, /not a multiple of 4/],
  [{ layer_norm_eps: 'small' }, /layer_norm_eps/],
  [{ rotary_emb_fraction: 1 }, /rotary_emb_fraction is 1/],
])('%j is refused by name', (more, message) => {
  expect(() => read({ ...BERT, ...more })).toThrow(message);
});

test.each([
  [{ hidden_act: 'gelu_new' }, { activation: 'gelu-tanh' }],
  [{ hidden_act: 'relu' }, { activation: 'relu' }],
  [{ id2label: { 0: 'unused' }, classifier_dropout: null, is_decoder: false }, {}],
])('%j is served', (more, expected) => {
  expect(read({ ...BERT, ...more })).toMatchObject(expected);
});

test('an architecture that is none is told with those that are', () => {
  const config = parseModelConfig(JSON.stringify({ ...BERT, architectures: ['ElectraModel'] }), 'config.json');
  expect(findEncoder(config)).toBeUndefined();
  expect(() => encoderOf(config)).toThrow(/ElectraModel.*BertModel.*XLMRobertaForSequenceClassification/);
});

test("names with and without prefix, and of TensorFlow's age", () => {
  const config = parseModelConfig(JSON.stringify(BERT), 'config.json');
  const family = encoderOf(config);
  const names = (...there: string[]) => family.tensorNames(read(BERT), (name) => there.includes(name));
  expect(names().words).toBe('embeddings.word_embeddings.weight');
  const prefixed = names('bert.embeddings.word_embeddings.weight', 'bert.embeddings.LayerNorm.gamma');
  expect(prefixed.layer(2).query.bias).toBe('bert.encoder.layer.2.attention.self.query.bias');
  expect(prefixed.embeddingNorm).toEqual({
    weight: 'bert.embeddings.LayerNorm.gamma',
    bias: 'bert.embeddings.LayerNorm.beta',
  });
});
