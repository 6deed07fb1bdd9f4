import { expect, test } from 'vitest';
import { defaultChoices } from '../gpu/kernel-choices.ts';
import { productKey, type RowKernel } from '../gpu/kernel-needs.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { decoderKernels } from './decoder-kernels.ts';
import { loadDecoder } from './load-decoder.ts';
import { goldenDecoder } from './testing/golden-decoder.ts';
import { randomDecoder } from './testing/random-decoder.ts';
import { type TinyShape, tinyModel } from './testing/tiny-model.ts';

// An optional dependency.
const webgpu = await import('webgpu').catch(() => undefined);
Object.assign(globalThis, webgpu?.globals);
// Kept: Dawn's device dies with its GPU object.
const dawn = webgpu?.create(['backend=null']);

const WIDE = { hiddenSize: 32, intermediateSize: 64, heads: 4, kvHeads: 2, headSize: 8 } as const;
const LIMIT = 64 * 64 * 4;

// Dawn's null adapter, which compiles and runs nothing: what is asked for is all that counts.
test.skipIf(!webgpu).each<[string, TinyShape, { quantisation?: Quantisation; bindingLimit?: number }]>([
  ['two layers, an untied head', { layers: 2 }, {}],
  ['quantised, a tied head', { ...WIDE, tiedHead: true }, { quantisation: 'q8' }],
  ['cut at a small binding limit', { ...WIDE, vocabSize: 150 }, { bindingLimit: LIMIT }],
])('foresees the products that loading asks for: %s', async (_, shape, options) => {
  const adapter = await dawn!.requestAdapter();
  const device = await adapter!.requestDevice();
  const { checkpoint, config } = tinyModel(3, shape);
  const { quantisation, bindingLimit = device.limits.maxStorageBufferBindingSize } = options;
  const needs = decoderKernels(checkpoint, config, { quantisation, bindingLimit });
  const asked = new Set<string>();
  const choices = defaultChoices(device);
  const runner = await loadDecoder(device, checkpoint, config, {
    ...{ kvBlocks: 4, maxRows: 8, maxSequences: 2, ...options },
    choices: {
      ...choices,
      linear: (part, form) => {
        asked.add(productKey(part, form));
        return choices.linear(part, form);
      },
    },
  });
  runner.destroy();
  device.destroy();
  const foreseen = needs.products.map(({ part, form }) => productKey(part, form));
  expect(foreseen.sort()).toEqual([...asked].sort());
  expect(needs).toMatchObject({ rows: ['rms-norm'], vocabulary: config.vocabSize });
  const uses = needs.products.reduce((sum, product) => sum + product.uses, 0);
  const whole = 4 * (shape.layers ?? 1) + 1;
  if (options.bindingLimit === undefined) expect(uses).toBe(whole);
  else expect(uses).toBeGreaterThan(whole);
});

test.skipIf(!webgpu).each<[string, readonly RowKernel[]]>([
  ['granite', ['rms-norm']],
  ['qwen2', ['rms-norm', 'rope']],
  ['gemma3', ['rms-norm', 'rope head norm', 'add-normed']],
  ['olmo2', ['rms-norm', 'rope row norm', 'add-normed']],
  ['gpt2', ['layer-norm', 'rope', 'activate-rows']],
])('foresees what %s asks for: its products, and what goes over rows', async (name, rows) => {
  const adapter = await dawn!.requestAdapter();
  const device = await adapter!.requestDevice();
  const { checkpoint, config } = await goldenDecoder(name);
  const needs = decoderKernels(checkpoint, config, { bindingLimit: device.limits.maxStorageBufferBindingSize });
  const asked = new Set<string>();
  const choices = defaultChoices(device);
  const runner = await loadDecoder(device, checkpoint, config, {
    ...{ kvBlocks: 4, maxRows: 8, maxSequences: 2 },
    choices: {
      ...choices,
      linear: (part, form) => {
        asked.add(productKey(part, form));
        return choices.linear(part, form);
      },
    },
  });
  runner.destroy();
  device.destroy();
  expect(needs.products.map(({ part, form }) => productKey(part, form)).sort()).toEqual([...asked].sort());
  expect([...needs.rows].sort()).toEqual([...rows].sort());
});

test('foresees what mixtures of experts ask for: routes, parts by format and size, and what these are with wider scales', () => {
  const shape = { ...WIDE, layers: 4, experts: 6 };
  const { checkpoint, config } = tinyModel(3, shape);
  const needs = (quantisation?: Quantisation, bindingLimit = 1 << 27) =>
    decoderKernels(checkpoint, config, { quantisation, bindingLimit });
  // Gate and up of an expert are two tiles in pairs, down one.
  const parts = (format: string, tiles: readonly number[]) => [
    ...tiles.map((count) => ({ tiles: 2 * count, columns: 32, format })),
    ...tiles.map((count) => ({ tiles: count, columns: 64, format })),
  ];
  const routes = [{ experts: 6, chosen: 2 }];
  expect(needs().experts).toEqual({ routes, parts: parts('f32', [6]), wider: [] });
  expect(needs('q8').experts).toEqual({ routes, parts: parts('q8-32-f16', [6]), wider: parts('q8-32-f32', [6]) });
  // Four experts a part, and the other two.
  expect(needs(undefined, 4 * LIMIT).experts).toEqual({ routes, parts: parts('f32', [4, 2]), wider: [] });
  // The router is never quantised.
  const router = { part: { tiles: 1, columns: 32, format: 'f32' }, form: { finish: 'store', normed: true }, uses: 2 };
  expect(needs('q8').products).toContainEqual(router);
  expect(needs().rows).toContain('rope head norm');
});

test('learned positions stay floats where all else is quantised', async () => {
  const keys = { n_embd: 32, n_head: 4, n_layer: 1, n_positions: 64, vocab_size: 97 };
  const gpt2 = { ...keys, architectures: ['GPT2LMHeadModel'] };
  const { config, checkpoint } = await randomDecoder(4, gpt2, { format: 'f16', shards: 1 });
  const { embeddings } = decoderKernels(checkpoint, config, { quantisation: 'q4', bindingLimit: 1 << 27 });
  expect(embeddings).toEqual([
    { format: 'q4-32-f16', of: 'tokens' },
    { format: 'f16', of: 'positions' },
  ]);
});
