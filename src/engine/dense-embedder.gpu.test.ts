import { expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { writeSafetensors } from '../checkpoint/testing/write-safetensors.ts';
import { Random } from '../gpu/testing/random.ts';
import { goldenModel, largestDifference } from '../model/testing/golden-encoders.ts';
import { normalise } from '../model/vector-steps.ts';
import { testGpu } from '../testing/device.ts';

import { readTestFile } from '../testing/read-file.ts';
import { loadEmbedder } from './load-embedder.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const module = (name: string, path: string) => ({ type: `sentence_transformers.models.${name}`, path });

/** A Dense module's file of random numbers, and what it makes of a vector. */
function denseOf(seed: number, inputs: number, outputs: number, tanh: boolean) {
  const values = new Random(seed).normals(outputs * (inputs + 1), 0.3);
  const bytes = 4 * outputs * inputs;
  const file = writeSafetensors(
    {
      'linear.weight': { dtype: 'F32', shape: [outputs, inputs], data_offsets: [0, bytes] },
      'linear.bias': { dtype: 'F32', shape: [outputs], data_offsets: [bytes, values.byteLength] },
    },
    new Uint8Array(values.buffer),
  );
  const apply = (vector: ArrayLike<number>) =>
    Array.from({ length: outputs }, (_, row) => {
      let sum = values[outputs * inputs + row]!;
      for (let at = 0; at < inputs; at++) sum += values[row * inputs + at]! * vector[at]!;
      return tanh ? Math.tanh(sum) : sum;
    });
  const activation_function = `torch.nn.modules.${tanh ? 'activation.Tanh' : 'linear.Identity'}`;
  return { file, apply, config: { in_features: inputs, out_features: outputs, bias: true, activation_function } };
}

test('a vector goes through the Dense modules behind its pooling, of sizes that are no whole words', async () => {
  const model = await goldenModel('bert');
  const [first, second] = [denseOf(1, 48, 31, true), denseOf(2, 31, 70, false)];
  const files: Record<string, Uint8Array> = {
    'modules.json': json([
      ...[module('Transformer', ''), module('Pooling', '1_Pooling')],
      ...[module('Dense', '2_Dense'), module('Dense', '3_Dense'), module('Normalize', '')],
    ]),
    '1_Pooling/config.json': json({ pooling_mode: 'mean' }),
    '2_Dense/config.json': json(first.config),
    '2_Dense/model.safetensors': first.file,
    '3_Dense/config.json': json(second.config),
    '3_Dense/model.safetensors': second.file,
  };
  for (const name of ['config.json', 'model.safetensors']) {
    files[name] = await readTestFile(`src/testing/golden/tiny/bert/${name}`);
  }
  const { embedder, destroy } = await loadEmbedder(await testGpu(), {
    files: { names: Object.keys(files), open: (name) => (files[name] ? bytesSource(name, files[name]) : undefined) },
    ...{ quantisation: 'none', budget: { kvBytes: 1 << 24, maxRunning: 8 } },
    kernels: { tune: 'off', precision: 'exact', version: 'test', totalMs: 60_000 },
  });
  expect(embedder.dimension).toBe(70);
  for (const index of [0, 1]) {
    const hidden = (await model.golden(`last_hidden_${index}`))!;
    const rows = hidden.length / 48;
    const pooled = Array.from({ length: 48 }, (_, column) => {
      let sum = 0;
      for (let row = 0; row < rows; row++) sum += hidden[row * 48 + column]!;
      return sum / rows;
    });
    const expected = normalise(Float32Array.from(second.apply(first.apply(pooled))));
    const { values } = await embedder.embed({ id: `${index}`, ...(await model.sequence(index)) });
    expect(largestDifference(values, expected)).toBeLessThan(1e-3);
  }
  destroy();
});
