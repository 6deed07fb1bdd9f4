import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { bytesSource } from '../../checkpoint/byte-source.ts';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { openGguf } from '../../checkpoint/open-gguf.ts';
import { openSafetensors } from '../../checkpoint/safetensors.ts';
import { type GgufConversion, writeGgufModel } from '../../checkpoint/testing/write-gguf-model.ts';
import { referenceDecoder } from '../../testing/decoder-reference.ts';
import { readReferenceWeights } from '../../testing/decoder-reference-weights.ts';
import { architectureOf } from '../architecture-of.ts';
import { decoderCheckpoint } from '../decoder-checkpoint.ts';

type Keys = Readonly<Record<string, unknown>>;

/** Metadata of experts. */
const experts = (count: number, chosen: number) => ({ expert_count: count, expert_used_count: chosen });

/**
 * Golden model, how its file is written, and what the file can't say of it, so that the model has the released ones'
 * value of it: Gemma's query_pre_attn_scalar, SmolLM3's layers without rope.
 */
const MODELS: readonly (readonly [string, GgufConversion, Keys?])[] = [
  ['llama', { architecture: 'llama', permuted: true }],
  ['mistral', { architecture: 'llama', permuted: true, metadata: { 'attention.sliding_window': 16 } }],
  ['mixtral', { architecture: 'llama', permuted: true, stacked: true, metadata: experts(4, 2) }],
  // Early files have a tensor for each expert.
  ['mixtral', { architecture: 'llama', permuted: true, metadata: experts(4, 2) }],
  ['smollm3', { architecture: 'smollm3', permuted: true }, { no_rope_layers: [1, 1, 1, 0] }],
  [
    'granite',
    {
      architecture: 'granite',
      permuted: true,
      metadata: { 'attention.scale': 0.32, embedding_scale: 3, residual_scale: 0.6, logit_scale: 2.5 },
    },
  ],
  ['qwen2', { architecture: 'qwen2' }],
  [
    'qwen2-yarn',
    {
      architecture: 'qwen2',
      metadata: {
        'rope.scaling.type': 'yarn',
        'rope.scaling.factor': 4,
        'rope.scaling.original_context_length': 300,
      },
    },
  ],
  ['qwen3', { architecture: 'qwen3' }],
  [
    'qwen3-moe',
    {
      architecture: 'qwen3moe',
      stacked: true,
      // Qwen3-Coder's files speak of what they have none of.
      metadata: { ...experts(8, 2), expert_feed_forward_length: 40, expert_shared_feed_forward_length: 0 },
    },
  ],
  [
    'gemma2',
    {
      architecture: 'gemma2',
      plusOne: true,
      metadata: { attn_logit_softcapping: 6, final_logit_softcapping: 9, 'attention.sliding_window': 16 },
    },
    { query_pre_attn_scalar: 24 },
  ],
  [
    'gemma3',
    {
      architecture: 'gemma3',
      plusOne: true,
      metadata: { 'attention.sliding_window': 16, 'rope.freq_base_swa': 100 },
    },
    { query_pre_attn_scalar: 16 },
  ],
  [
    'gemma3-newconfig',
    {
      architecture: 'gemma3',
      plusOne: true,
      metadata: {
        'attention.sliding_window': 16,
        'attention.sliding_window_pattern': 2,
        'rope.freq_base': 30_000,
        'rope.freq_base_swa': 150,
        'rope.scaling.type': 'linear',
        'rope.scaling.factor': 2,
      },
    },
    { query_pre_attn_scalar: 20 },
  ],
  [
    'phi3',
    {
      architecture: 'phi3',
      metadata: {
        'rope.dimension_count': 12,
        'attention.sliding_window': 16,
        'rope.scaling.original_context_length': 256,
      },
    },
  ],
  ['olmo2', { architecture: 'olmo2', metadata: { 'rope.freq_base': 500_000 } }],
  ['gpt2', { architecture: 'gpt2' }],
];

const golden = async (model: string, name: string) =>
  new Uint8Array(await readFile(new URL(`../../testing/golden/tiny/${model}/${name}`, import.meta.url)));
const keysOf = async (model: string) => JSON.parse(new TextDecoder().decode(await golden(model, 'config.json')));

/** What a decoder is, and what it computes of some ids. */
async function run(config: ModelConfig, checkpoint: Checkpoint) {
  const architecture = architectureOf(config);
  const decoder = architecture.readConfig(config);
  const own = decoderCheckpoint(checkpoint, architecture, decoder);
  const weights = await readReferenceWeights(own, architecture.tensorNames(decoder), decoder);
  return { decoder, logits: referenceDecoder(decoder, weights, [5, 80, 300, 7, 7]).logits };
}

const CASES = MODELS.map(([model, how, change = {}]) => ({ model, how, change }));

test.each(CASES)('$model as GGUF is the model that it is as safetensors', async ({ model, how, change }) => {
  const raw = { ...(await keysOf(model)), ...change };
  const original = await openSafetensors(bytesSource('m.safetensors', await golden(model, 'model.safetensors')));
  const opened = await openGguf(bytesSource('m.gguf', await writeGgufModel(original, raw, how)));
  const expected = await run(parseModelConfig(JSON.stringify(raw), 'config.json'), original);
  const actual = await run(opened.config, opened.checkpoint);
  expect(actual.decoder).toEqual(expected.decoder);
  expect(actual.logits.length).toBe(5);
  actual.logits.forEach((row, position) => {
    const worst = Math.max(...row.map((logit, id) => Math.abs(logit - expected.logits[position]![id]!)));
    // Gemma's norms lose what 1 + w can't hold.
    expect(worst).toBeLessThan(how.plusOne ? 1e-4 : 1e-12);
  });
});

test("Gemma 3's windows may be listed by layers", async () => {
  const raw = await keysOf('gemma3-newconfig');
  const original = await openSafetensors(
    bytesSource('m.safetensors', await golden('gemma3-newconfig', 'model.safetensors')),
  );
  const windows = async (...listed: readonly number[]) => {
    // A list (9) of booleans (7).
    const pattern = { type: 9, bytes: Uint8Array.of(7, 0, 0, 0, listed.length, 0, 0, 0, 0, 0, 0, 0, ...listed) };
    const metadata = { 'attention.sliding_window': 16, 'attention.sliding_window_pattern': pattern };
    const file = await writeGgufModel(original, raw, { architecture: 'gemma3', plusOne: true, metadata });
    const { config } = await openGguf(bytesSource('m.gguf', file));
    return architectureOf(config)
      .readConfig(config)
      .layers.map(({ attention }) => attention.window);
  };
  expect(await windows(1, 0, 0, 1)).toEqual([16, undefined, undefined, 16]);
  await expect(windows(1, 0)).rejects.toThrow(/layer_types is .*, not one of its values for each of 4 layers/);
});

test("Gemma 2's first files don't say its caps and window, early ones of Qwen2 something of another family", async () => {
  const opened = async (model: string, how: GgufConversion) => {
    const original = await openSafetensors(bytesSource('m.safetensors', await golden(model, 'model.safetensors')));
    return openGguf(bytesSource('m.gguf', await writeGgufModel(original, await keysOf(model), how)));
  };
  expect((await opened('gemma2', { architecture: 'gemma2', plusOne: true })).config.raw).toMatchObject({
    ...{ attn_logit_softcapping: 50, final_logit_softcapping: 30, sliding_window: 4096 },
  });
  const qwen2 = await opened('qwen2', { architecture: 'qwen2', metadata: { use_parallel_residual: true } });
  expect(qwen2.config.raw).toEqual((await opened('qwen2', { architecture: 'qwen2' })).config.raw);
});

test("Phi-3's factors of short and long contexts are tensors", async () => {
  const raw = await keysOf('phi3');
  const original = await openSafetensors(bytesSource('m.safetensors', await golden('phi3', 'model.safetensors')));
  const [short, long] = [
    [1, 1, 1.5, 1.5, 2, 2.5],
    [1, 2, 4, 8, 16, 32],
  ];
  const rope = (name: string, values: readonly number[]) =>
    [name, { name, dtype: 'F32', shape: [values.length], offset: 0, byteLength: 4 * values.length }] as const;
  const factors = new Map([rope('rope_factors_short', short), rope('rope_factors_long', long)]);
  const bytes = await writeGgufModel(
    {
      name: 'with factors',
      tensors: new Map([...original.tensors, ...factors]),
      read: async (tensor) =>
        factors.has(tensor.name)
          ? new Uint8Array(Float32Array.from(tensor.name === 'rope_factors_short' ? short : long).buffer)
          : original.read(tensor),
    },
    raw,
    {
      architecture: 'phi3',
      metadata: {
        'rope.dimension_count': 12,
        'attention.sliding_window': 0,
        'rope.scaling.original_context_length': 64,
        'rope.scaling.attn_factor': 1.25,
      },
    },
  );
  const { config, checkpoint } = await openGguf(bytesSource('m.gguf', bytes));
  const scaling = { rope_type: 'longrope', short_factor: short, long_factor: long, attention_factor: 1.25 };
  const expected = { ...raw, sliding_window: null, original_max_position_embeddings: 64, rope_scaling: scaling };
  const { decoder } = await run(config, checkpoint);
  const own = await run(parseModelConfig(JSON.stringify(expected), 'config.json'), original);
  expect(decoder).toEqual(own.decoder);
  expect([decoder.ropes[0]!.factor, decoder.layers[0]!.attention.window]).toEqual([1.25, undefined]);
});
