import { expect, test } from 'vitest';
import { testDevice } from '../testing/device.ts';
import { Linear } from './linear.ts';
import { MATVEC_COLUMNS } from './linear-choice.ts';
import { linearVariantOf } from './linear-variant.ts';
import { NormInput } from './norm-input.ts';
import { packStep } from './pack-step.ts';
import { deviceLanguage } from './request-device.ts';
import { STEP_HEADER } from './step-layout.ts';
import { bits, KernelBench } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';

test('parameters as immediates give what parameters in uniforms give, two kernels after another', async () => {
  const offered = deviceLanguage(await testDevice()).has('immediate_address_space');
  const results: Uint32Array[] = [];
  for (const immediates of [false, true]) {
    const bench = await KernelBench.open(undefined, immediates);
    const { gpu } = bench;
    expect(gpu.immediates).toBe(immediates && offered);
    const columns = [52, 8] as const;
    const random = new Random(1);
    const words = packStep(
      new Uint32Array(1 << 10),
      [{ slot: 0, tokens: new Uint32Array(3), startPosition: 0, blockTable: [0] }],
      [],
      8,
    ).words.slice();
    const step = await bench.buffer(words);
    const kernels = await Promise.all(
      columns.map(async (count) => {
        const squares = await bench.zeros(3 * 64);
        const buffers = {
          ...{ step, squares, input: await bench.rows(random.normals(3 * count), count) },
          ...{ gain: await bench.rows(random.normals(count), count), scaled: await bench.zeros(3 * count) },
        };
        return { kernel: await NormInput.create(gpu, count, buffers), buffers };
      }),
    );
    await bench.run((pass) => {
      for (const { kernel } of kernels) kernel.encode(pass, 3);
    });
    for (const { buffers } of kernels) {
      results.push(bits(await bench.read(buffers.scaled)), bits(await bench.read(buffers.squares)));
    }
    bench.close();
  }
  expect(results[0]!.some((word) => word !== 0)).toBe(true);
  expect(results.slice(4)).toEqual(results.slice(0, 4));
});

test('a product, with more parameters than immediates hold, has them in a uniform all the same', async () => {
  const [rows, inner] = [21, 30];
  const variant = linearVariantOf('plain-2x1-8x1x1-4');
  const results: Uint32Array[] = [];
  for (const immediates of [false, true]) {
    const bench = await KernelBench.open(undefined, immediates);
    const random = new Random(2);
    const matrix = await bench.matrix(inner, randomMatrix(random, rows, inner).source);
    const output = await bench.zeros(2 * rows);
    const linear = await Linear.create(
      bench.gpu,
      matrix,
      { outputStride: rows, countWord: STEP_HEADER.rows },
      { step: await bench.rowsStep(2), input: await bench.rows(random.normals(2 * inner), inner), output },
      () => ({ splits: 1, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant }),
    );
    await bench.run((pass) => linear.encode(pass, 2));
    results.push(bits(await bench.read(output, 2 * rows)));
    bench.close();
  }
  expect([...results[0]!].filter((word) => word === 0)).toEqual([]);
  expect(results[1]).toEqual(results[0]);
});
