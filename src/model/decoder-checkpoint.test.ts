import { describe, expect, test } from 'vitest';
import { type Checkpoint, CheckpointError } from '../checkpoint/checkpoint.ts';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { architectureOf } from './architecture-of.ts';
import { decoderCheckpoint, tensorsOf } from './decoder-checkpoint.ts';

const SIZES = { model_type: 'any', vocab_size: 10, hidden_size: 8, max_position_embeddings: 8 };
const LLAMA = {
  ...SIZES,
  architectures: ['LlamaForCausalLM'],
  num_hidden_layers: 2,
  num_attention_heads: 2,
  intermediate_size: 12,
};
const GPT2 = { ...SIZES, architectures: ['GPT2LMHeadModel'], n_layer: 2, n_head: 2 };

function model(raw: object) {
  const config = parseModelConfig(JSON.stringify(raw), 'config.json');
  const architecture = architectureOf(config);
  const decoder = architecture.readConfig(config);
  return { architecture, decoder, names: [...tensorsOf(architecture.tensorNames(decoder), decoder)] };
}

/** A checkpoint of tensors of these names; each has its own name for its bytes. */
function stored(names: readonly string[]): Checkpoint {
  const info = (name: string) => ({ name, dtype: 'F32', shape: [1], offset: 0, byteLength: 4 });
  return {
    name: 'm.safetensors',
    tensors: new Map(names.map((name) => [name, info(name)])),
    read: async ({ name }) => new TextEncoder().encode(name),
  };
}

const bare = (names: readonly string[]) => names.map((name) => name.replace(/^(model|transformer)\./, ''));

describe.each([
  ['Llama', LLAMA, 'model.layers.1.self_attn.rotary_emb.inv_freq'],
  ['GPT-2', GPT2, 'transformer.h.1.attn.masked_bias'],
])('%s', (_, raw, buffer) => {
  const { architecture, decoder, names } = model({ ...raw, tie_word_embeddings: true });
  const open = (tensors: readonly string[]) => decoderCheckpoint(stored(tensors), architecture, decoder);

  test('has its tensors under their names, with and without prefix, and none else', async () => {
    for (const files of [names, bare(names), [...names, buffer], [...bare(names), ...bare([buffer])]]) {
      const opened = open(files);
      expect([...opened.tensors.keys()].sort()).toEqual([...names].sort());
      for (const [name, tensor] of opened.tensors) {
        expect(tensor.name).toBe(name);
        expect(bare([new TextDecoder().decode(await opened.read(tensor))])).toEqual(bare([name]));
      }
    }
  });

  test('has no head where it is tied, though it be stored', () => {
    expect(open([...names, 'lm_head.weight']).tensors.has('lm_head.weight')).toBe(false);
    const untied = model({ ...raw, tie_word_embeddings: false });
    const opened = decoderCheckpoint(stored([...bare(names), 'lm_head.weight']), untied.architecture, untied.decoder);
    expect(opened.tensors.has('lm_head.weight')).toBe(true);
  });

  test('is refused with the names of what would stay unused', () => {
    const refusal = (more: readonly string[]) => {
      expect(() => open([...names, ...more])).toThrow(CheckpointError);
      expect(() => open([...names, ...more])).toThrow(/^m\.safetensors: \w+ of this config has no tensors /);
      return expect(() => open([...names, ...more]));
    };
    refusal(['model.layers.0.self_attn.q_proj.lora_A.weight']).toThrow(/no tensors model\.layers\.0\S+lora_A\.weight$/);
    // A layer that the config doesn't have.
    const third = names.filter((name) => /\.1\./.test(name)).map((name) => name.replace('.1.', '.2.'));
    refusal(third).toThrow(new RegExp(`no tensors ${third.slice(0, 5).join(', ')} and ${third.length - 5} more$`));
    refusal(['vision_tower.embeddings']).toThrow(/vision_tower\.embeddings$/);
    refusal([`${names[0]}.scales`]).toThrow(/\.scales$/);
  });

  test('is refused where one tensor is there under both names', () => {
    expect(() => open([...names, bare(names)[0]!])).toThrow(/are the same/);
  });
});

test('leaves what is missing to who reads it', async () => {
  const { architecture, decoder, names } = model(LLAMA);
  const opened = decoderCheckpoint(stored(names.slice(1)), architecture, decoder);
  expect(opened.tensors.has(names[0]!)).toBe(false);
  await expect(async () =>
    opened.read({ name: names[0]!, dtype: 'F32', shape: [1], offset: 0, byteLength: 4 }),
  ).rejects.toThrow(/m\.safetensors: tensor \S+ is missing/);
});
