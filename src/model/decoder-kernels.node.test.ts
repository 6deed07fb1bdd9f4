import { expect, test } from 'vitest';
import { defaultChoices } from '../gpu/kernel-choices.ts';
import { productKey } from '../gpu/kernel-needs.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { decoderKernels } from './decoder-kernels.ts';
import { loadDecoder } from './load-decoder.ts';
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
