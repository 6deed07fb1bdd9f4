import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { parseModelConfig } from '../../checkpoint/model-config.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { referenceDecoder } from '../../testing/decoder-reference.ts';
import { readReferenceWeights } from '../../testing/decoder-reference-weights.ts';
import type { DecoderNames } from '../architecture.ts';
import { architectureOf } from '../architecture-of.ts';
import { decoderCheckpoint, tensorsOf } from '../decoder-checkpoint.ts';
import type { DecoderConfig } from '../decoder-config.ts';
import { openDecoder } from '../describe-decoder.ts';

const DECODERS = [
  ...['llama', 'llama3-rope', 'mistral', 'mixtral', 'qwen2', 'qwen2-yarn', 'qwen3', 'qwen3-moe'],
  ...['gemma2', 'gemma3', 'gemma3-newconfig', 'phi3', 'gpt2', 'smollm3', 'olmo2', 'granite'],
];
const LENGTH = 48;

const file = async (model: string, name: string) =>
  new Uint8Array(await readFile(new URL(`../../testing/golden/tiny/${model}/${name}`, import.meta.url)));

async function open(model: string, name: string) {
  return openSafetensors(bytesSource(name, await file(model, name)));
}

test.each(DECODERS)('%s: the config and names give the logits of the reference implementation', async (model) => {
  const config = parseModelConfig(new TextDecoder().decode(await file(model, 'config.json')), 'config.json');
  const architecture = architectureOf(config);
  const decoder = architecture.readConfig(config);
  const names = architecture.tensorNames(decoder);
  const stored = await open(model, 'model.safetensors');
  const checkpoint = decoderCheckpoint(stored, architecture, decoder);
  expect([...tensorsOf(names, decoder)].sort()).toEqual([...stored.tensors.keys()].sort());
  await expectGolden(model, decoder, names, checkpoint);
});

test.each([
  ['language_model.model.', 'language_model.', ''],
  ['model.language_model.', '', 'model.'],
])(
  'the text part of a model that reads images too, its tensors under %s, is the model of text',
  async (text, head, other) => {
    const own = JSON.parse(new TextDecoder().decode(await file('gemma3', 'config.json')));
    const { architectures: _, eos_token_id, torch_dtype, ...text_config } = own;
    const around = {
      architectures: ['Gemma3ForConditionalGeneration'],
      model_type: 'gemma3',
      eos_token_id,
      torch_dtype,
    };
    const vision = { image_token_index: 500, mm_tokens_per_image: 4, vision_config: { hidden_size: 32 } };
    const raw = { ...around, ...vision, text_config };
    const config = parseModelConfig(JSON.stringify(raw), 'config.json');
    expect(config.raw).not.toHaveProperty('text_config');
    // What a relay passes on is read alike.
    expect(parseModelConfig(JSON.stringify(config.raw), 'config.json')).toEqual(config);

    const stored = await open('gemma3', 'model.safetensors');
    const renamed = (name: string) => (name.startsWith('model.') ? name.replace('model.', text) : `${head}${name}`);
    const tensors = new Map(
      [...stored.tensors.values()].map((tensor) => [renamed(tensor.name), { ...tensor, name: renamed(tensor.name) }]),
    );
    const [any] = tensors.values();
    for (const name of [
      'vision_tower.vision_model.post_layernorm.weight',
      'multi_modal_projector.mm_soft_emb_norm.weight',
    ]) {
      tensors.set(`${other}${name}`, { ...any!, name: `${other}${name}` });
    }
    const both = { ...stored, tensors };
    const opened = openDecoder(both, config);
    await expectGolden('gemma3', opened.config, opened.names, opened.checkpoint);
    tensors.set('audio_tower.conv.weight', { ...any!, name: 'audio_tower.conv.weight' });
    expect(() => openDecoder(both, config)).toThrow(/has no tensors audio_tower\.conv\.weight$/);
  },
);

async function expectGolden(model: string, decoder: DecoderConfig, names: DecoderNames, checkpoint: Checkpoint) {
  const golden = await open(model, 'golden.safetensors');
  const read = async (name: string) => (await golden.read(golden.tensors.get(name)!)).slice().buffer;
  const ids = new Int32Array(await read('input_ids'));
  const logits = new Float32Array(await read('logits'));
  const hidden = new Float32Array(await read('last_hidden'));
  const weights = await readReferenceWeights(checkpoint, names, decoder);
  // The second sequence: the first one is others' too.
  const ours = referenceDecoder(decoder, weights, [...ids.subarray(LENGTH, 2 * LENGTH)]);
  const worst = (rows: readonly Float64Array[], all: Float32Array) => {
    const own = all.subarray(all.length / 2);
    expect(own.length).toBe(rows.length * rows[0]!.length);
    return Math.max(
      ...rows.map((row, r) => Math.max(...row.map((value, i) => Math.abs(value - own[r * row.length + i]!)))),
    );
  };
  expect(worst(ours.lastHidden, hidden)).toBeLessThan(2e-4);
  expect(worst(ours.logits, logits)).toBeLessThan(2e-4);
}
