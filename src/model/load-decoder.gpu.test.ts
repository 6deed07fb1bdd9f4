import { describe, expect, test } from 'vitest';
import type { Checkpoint, TensorInfo } from '../checkpoint/checkpoint.ts';
import { Gpu } from '../gpu/gpu.ts';
import { testDevice } from '../testing/device.ts';
import { loadDecoderWeights } from './decoder-weights.ts';
import { describeDecoder } from './describe-decoder.ts';
import { loadDecoder } from './load-decoder.ts';
import { tinyModel } from './testing/tiny-model.ts';

const OPTIONS = { kvBlocks: 4, maxRows: 8, maxSequences: 2 };
const LAYER_NORM = 'model.layers.0.input_layernorm.weight';
const DOWN = 'model.layers.0.mlp.down_proj.weight';

/** A checkpoint with one tensor changed, or without it; it counts the bytes read. */
function changed(checkpoint: Checkpoint, name: string, more: Partial<TensorInfo> | undefined) {
  const tensors = new Map(checkpoint.tensors);
  if (more) tensors.set(name, { ...tensors.get(name)!, ...more });
  else tensors.delete(name);
  const read: string[] = [];
  const result: Checkpoint = {
    name: 'broken.safetensors',
    tensors,
    read(tensor, from, length) {
      read.push(tensor.name);
      return checkpoint.read(tensor, from, length);
    },
  };
  return { checkpoint: result, read };
}

describe('a bad checkpoint fails before anything is read, naming file, tensor and reason', () => {
  test.each<[string, Partial<TensorInfo> | undefined, RegExp]>([
    [DOWN, undefined, /broken\.safetensors: tensor model\.layers\.0\.mlp\.down_proj\.weight is missing/],
    [DOWN, { shape: [24, 16] }, /down_proj\.weight has shape \[24, 16\], the config asks for \[16, 24\]/],
    [DOWN, { dtype: 'I8' }, /down_proj\.weight has dtype I8; F32, F16, BF16, Q4_0.* and MXFP4 are served/],
    [LAYER_NORM, undefined, /input_layernorm\.weight is missing/],
    ['model.norm.weight', { shape: [8] }, /model\.norm\.weight has shape \[8\]/],
    ['lm_head.weight', undefined, /lm_head\.weight is missing/],
  ])('%s: %j', async (name, more, message) => {
    const model = tinyModel(1);
    const { checkpoint, read } = changed(model.checkpoint, name, more);
    await expect(loadDecoder(await testDevice(), checkpoint, model.config, OPTIONS)).rejects.toThrow(message);
    expect(read).toEqual([]);
  });
});

test('bytes that do not come are an error', async () => {
  const { checkpoint, config } = tinyModel(1);
  const short: Checkpoint = {
    ...checkpoint,
    read: async (tensor, from, length) => (await checkpoint.read(tensor, from, length)).subarray(4),
  };
  await expect(loadDecoder(await testDevice(), short, config, OPTIONS)).rejects.toThrow(/gave \d+ bytes of \d+/);
});

test.each([
  [{ kvBlocks: 0 }, /kvBlocks must be a positive integer/],
  [{ maxRows: 0 }, /maxRows must be an integer of at least 1, got 0/],
  [{ maxSequences: 1.5 }, /maxSequences must be/],
  [{ kvBlocks: 1e9 }, /1000000000 KV blocks of \d+ bytes a layer are over the binding limit/],
])('options %j are refused by name', async (more, message) => {
  const { checkpoint, config } = tinyModel(1);
  await expect(loadDecoder(await testDevice(), checkpoint, config, { ...OPTIONS, ...more })).rejects.toThrow(message);
});

test('progress rises to the whole', async () => {
  const { checkpoint, config } = tinyModel(1, { layers: 2, tiedHead: true });
  const seen: [number, number][] = [];
  const runner = await loadDecoder(await testDevice(), checkpoint, config, {
    ...OPTIONS,
    onProgress: (loaded, total) => seen.push([loaded, total]),
  });
  const total = [...checkpoint.tensors.values()].reduce((sum, tensor) => sum + tensor.byteLength, 0);
  expect(seen.at(-1)).toEqual([total, total]);
  expect(seen.every(([loaded], i) => i === 0 || loaded > seen[i - 1]![0])).toBe(true);
  runner.destroy();
});

test('a layer range reads its own tensors and no other', async () => {
  const { checkpoint, config } = tinyModel(1, { layers: 3 });
  const gpu = new Gpu(await testDevice());
  const load = async (from: number, to: number) => {
    const read = new Set<string>();
    const watched: Checkpoint = {
      ...checkpoint,
      read(tensor, at, length) {
        read.add(tensor.name);
        return checkpoint.read(tensor, at, length);
      },
    };
    const described = describeDecoder(config);
    const weights = await loadDecoderWeights(gpu, watched, described.config, described.names, { from, to });
    return { weights, names: [...read].map((name) => name.replace(/^model\.layers\.(\d).*/, 'layer $1')) };
  };
  const first = await load(0, 1);
  expect(new Set(first.names)).toEqual(new Set(['model.embed_tokens.weight', 'layer 0']));
  expect([first.weights.layers.length, first.weights.head, first.weights.finalNorm]).toEqual([1, undefined, undefined]);
  const middle = await load(1, 2);
  expect(new Set(middle.names)).toEqual(new Set(['layer 1']));
  const last = await load(2, 3);
  expect(new Set(last.names)).toEqual(new Set(['layer 2', 'model.norm.weight', 'lm_head.weight']));
  expect(last.weights.embedding).toBeUndefined();
  gpu.destroy();
});
