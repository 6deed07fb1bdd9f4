import { expect, test } from 'vitest';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { EncoderConfig } from './encoder-config.ts';
import { bertNames } from './encoder-names.ts';
import { checkUnused } from './encoder-unused.ts';

const config = { architecture: 'BertModel', layers: 2 } as EncoderConfig;
const own = bertNames('bert.', (name) => name.startsWith('bert.') && !name.endsWith('gamma'));
const LAYER = 'bert.encoder.layer.1';

function check(...names: readonly string[]): void {
  const tensors = new Map([`${LAYER}.output.dense.bias`, own.words, ...names].map((name) => [name, {}]));
  checkUnused({ name: 'model.safetensors', tensors } as unknown as Checkpoint, own, config);
}

test('what published encoders hold beside their own is passed over', () => {
  check('bert.embeddings.position_ids', 'bert.pooler.dense.weight', 'cls.predictions.bias', 'lm_head.dense.weight');
});

test('a tensor that nothing asks for is named', () => {
  expect(() => check('bert.encoder.layer.2.output.dense.bias', `${LAYER}.attention.self.query.lora_A.weight`)).toThrow(
    /BertModel of this config has no tensors bert\.encoder\.layer\.2\.output\.dense\.bias, .*lora_A/,
  );
  expect(() => check(...Array.from({ length: 7 }, (_, i) => `extra.${i}`))).toThrow(/extra\.4 and 2 more/);
});
