import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { activationReference } from './activation.reference.ts';
import { ACTIVATIONS } from './activation.ts';
import { candidates } from './linear-candidates.ts';
import { squaresOf } from './linear-trial.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { NO_SEGMENT, SegmentEntries } from './segment-entries.ts';
import type { SegmentedChoice } from './segmented-kernel.ts';
import { segmentedReference } from './segmented-linear.reference.ts';
import { SegmentedLinear, type SegmentedShape } from './segmented-linear.ts';
import { SegmentedMatrix } from './segmented-matrix.ts';
import { bits, KernelBench, largestError } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { isQuantFormat, type MatrixFormat, tileBytes } from './weight-format.ts';
import type { AnySource } from './weight-matrix.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

interface Segments {
  readonly sources: readonly (readonly AnySource[])[];
  /** [rows, columns] each. */
  readonly values: readonly Float32Array[];
}

/** Random segments, each of `cuts` sources one below the other. */
function randomSegments(random: Random, count: number, rows: number, columns: number, format: MatrixFormat, cuts = 1) {
  const all = Array.from({ length: count }, () =>
    Array.from({ length: cuts }, () => randomMatrix(random, rows / cuts, columns, format)),
  );
  return {
    sources: all.map((own) => own.map(({ source }) => source)),
    values: all.map((own) => Float32Array.from(own.flatMap(({ values }) => [...values]))),
  } satisfies Segments;
}

interface Case {
  readonly choice?: SegmentedChoice;
  readonly on?: KernelBench;
  readonly matrix: SegmentedMatrix;
  readonly list: Uint32Array<ArrayBuffer>;
  readonly entriesARow: number;
  readonly x: Float32Array;
  readonly shape: SegmentedShape;
  readonly output: Float32Array<ArrayBuffer>;
}

/** The output of the product by single entries, and of that by groups. */
async function products({ on = bench, matrix, list, entriesARow, x, shape, output, choice }: Case) {
  const rows = list.length / entriesARow;
  const step = await on.rowsStep(rows);
  const { segments } = matrix;
  const entries = await SegmentEntries.create(on.gpu, { segments, entriesARow, maxRows: rows }, step);
  on.gpu.device.queue.writeBuffer(entries.list, 0, list);
  const input = await on.rows(x, matrix.columns);
  const results: Float32Array<ArrayBuffer>[] = [];
  for (const grouped of [false, true]) {
    const out = await on.buffer(output.slice());
    const buffers = { step, input, output: out };
    const choose = choice && (() => choice);
    const linear = await SegmentedLinear.create(on.gpu, matrix, entries, shape, buffers, choose);
    await on.run((pass) => {
      entries.group(pass);
      linear.encode(pass, rows, grouped);
    });
    results.push(await on.read(out, output.length));
  }
  return results as [Float32Array<ArrayBuffer>, Float32Array<ArrayBuffer>];
}

const randomList = (random: Random, entries: number, segments: number) =>
  Uint32Array.from({ length: entries }, () => (random.uniform() < 0.1 ? NO_SEGMENT : random.integer(0, segments - 1)));

const segmentOf = (list: Uint32Array, entry: number) => (list[entry] === NO_SEGMENT ? undefined : list[entry]);

const FORMATS: readonly MatrixFormat[] = LONG
  ? ['f32', 'f16', 'bf16', 'q4-32-f16', 'q4-16-f32', 'q8-32-f32', 'q8-16-f16']
  : ['f32', 'q8-16-f16'];

describe.each(FORMATS)('%s', (format) => {
  test.each([
    // segments, rows of one, columns, rows of the step, entries of each, tiles of a part (0: any)
    [1, 5, 32, 1, 1, 0],
    [8, 40, 48, 1, 2, 0],
    [5, 67, 61, 7, 3, 0],
    [4, 130, 96, 9, 2, 2],
    [3, 130, 64, 5, 2, 4],
    [6, 64, 33, 40, 2, 3],
  ])('%i segments of %i × %i: %i rows of %i entries are each by their own (parts of %i tiles)', async (...sizes) => {
    const [segments, rows, wanted, stepRows, entriesARow, cut] = sizes;
    const columns = isQuantFormat(format) ? 32 * Math.ceil(wanted / 32) : wanted;
    const random = new Random(segments * rows);
    const { sources, values } = randomSegments(random, segments, rows, columns, format);
    const on = cut === 0 ? bench : await KernelBench.open(cut * tileBytes(format, columns));
    const matrix = (await SegmentedMatrix.load(on.gpu, columns, sources))!;
    expect(matrix.parts.length > 1).toBe(cut > 0);
    const list = randomList(random, stepRows * entriesARow, segments);
    const x = random.normals(stepRows * columns);
    const stride = rows + 3;
    const output = new Float32Array(list.length * stride).fill(9);
    const shape = { outputStride: stride, outputAt: 2, input: 'row' } as const;
    const [single, grouped] = await products({ on, matrix, list, entriesARow, x, shape, output });
    const expected = segmentedReference(
      values,
      rows,
      Array.from(list, (_, entry) => {
        const row = Math.floor(entry / entriesARow);
        return { segment: segmentOf(list, entry), x: x.subarray(row * columns, (row + 1) * columns) };
      }),
    );
    const all = output.slice();
    expected.forEach((sums, entry) => {
      if (sums) all.set(sums, entry * stride + 2);
    });
    expect(largestError(single, all)).toBeLessThan(1e-4);
    expect(bits(grouped)).toEqual(bits(single));
    if (on !== bench) on.close();
  });

  test('a normed product of pairs is activated, and has the bits of a lone row', async () => {
    const [segments, size, columns, stepRows] = [3, 40, 64, 11];
    const random = new Random(3);
    const { sources, values } = randomSegments(random, segments, 2 * size, columns, format, 2);
    const matrix = (await SegmentedMatrix.load(bench.gpu, columns, sources, true))!;
    const list = randomList(random, stepRows * 2, segments);
    const x = random.normals(stepRows * columns, 2);
    const ones = new Float32Array(columns).fill(1);
    for (const activation of LONG || format === 'f32' ? ACTIVATIONS : (['silu'] as const)) {
      const shapeOf = async (own: Float32Array): Promise<SegmentedShape> => ({
        ...{ outputStride: size, input: 'row', finish: { kind: 'gate', activation } },
        norm: { epsilon: 1e-5, squares: await bench.buffer(squaresOf(own, columns)) },
      });
      const output = new Float32Array(list.length * size);
      const arranged = { matrix, list, entriesARow: 2, x, shape: await shapeOf(x), output };
      const [single, grouped] = await products(arranged);
      const expected = new Float32Array(output.length);
      list.forEach((_, entry) => {
        const row = x.subarray((entry >> 1) * columns, ((entry >> 1) + 1) * columns);
        const normed = rmsNormReference(row, ones, 1e-5);
        const [sums] = segmentedReference(values, 2 * size, [{ segment: segmentOf(list, entry), x: normed }]);
        if (!sums) return;
        for (let i = 0; i < size; i++) {
          expected[entry * size + i] = activationReference(activation, sums[i]!) * sums[size + i]!;
        }
      });
      expect(largestError(single, expected)).toBeLessThan(1e-4);
      expect(bits(grouped)).toEqual(bits(single));
      const alone = x.slice(4 * columns, 5 * columns);
      const [one] = await products({
        ...arranged,
        ...{ list: list.slice(8, 10), x: alone, shape: await shapeOf(alone), output: output.slice(0, 2 * size) },
      });
      expect(bits(one)).toEqual(bits(single.slice(8 * size, 10 * size)));
    }
  });
});

// SwiftShader takes a second to compile what is made for GPUs.
test.runIf(LONG).each(FORMATS)('%s: what GPUs take is right here, threads along K too', async (format) => {
  const [segments, size, columns, stepRows] = [4, 70, 256, 9];
  const random = new Random(6);
  const { sources, values } = randomSegments(random, segments, 2 * size, columns, format, 2);
  const on = await KernelBench.open(6 * tileBytes(format, columns));
  const matrix = (await SegmentedMatrix.load(on.gpu, columns, sources, true))!;
  const features = { has: () => false, packedDot: false, software: false, fragments: [] };
  const list = randomList(random, stepRows * 2, segments);
  const x = random.normals(stepRows * columns);
  const shape = { outputStride: size, input: 'row', finish: { kind: 'gate', activation: 'silu' } } as const;
  const expected = new Float32Array(list.length * size);
  list.forEach((_, entry) => {
    const row = x.subarray((entry >> 1) * columns, ((entry >> 1) + 1) * columns);
    const [sums] = segmentedReference(values, 2 * size, [{ segment: segmentOf(list, entry), x: row }]);
    for (let i = 0; sums && i < size; i++) {
      expected[entry * size + i] = activationReference('silu', sums[i]!) * sums[size + i]!;
    }
  });
  for (const { splits, matvec } of candidates(
    { tiles: 12, columns, format },
    { finish: 'gate', normed: false },
    features,
    'exact',
  )) {
    const choice = { splits, single: matvec[0]!, grouped: { ...matvec[3]!, columns: 4 } };
    const output = new Float32Array(expected.length);
    const [single, grouped] = await products({ on, matrix, list, entriesARow: 2, x, shape, output, choice });
    expect(largestError(single, expected)).toBeLessThan(1e-4);
    expect(bits(grouped)).toEqual(bits(single));
  }
  on.close();
});

test('gate and up of other formats, and experts of other formats, give what they should', async () => {
  const [segments, size, columns, stepRows] = [3, 40, 64, 7];
  const random = new Random(4);
  const own = (format: MatrixFormat, count = segments) => randomSegments(random, count, size, columns, format);
  const [gates, more, ups] = [own('q4-32-f16', 2), own('f16', 1), own('bf16')];
  const gate = { sources: [...gates.sources, ...more.sources], values: [...gates.values, ...more.values] };
  const both = gate.sources.map((sources, i) => [...sources, ...ups.sources[i]!]);
  expect(await SegmentedMatrix.load(bench.gpu, columns, both, true)).toBeUndefined();
  const list = randomList(random, stepRows * 2, segments);
  const x = random.normals(stepRows * columns, 2);
  const arranged = { list, entriesARow: 2, x, output: new Float32Array(list.length * size) };
  const shape = { outputStride: size, input: 'row' } as const;
  const gateMatrix = (await SegmentedMatrix.load(bench.gpu, columns, gate.sources))!;
  expect(gateMatrix.parts.map(({ format }) => format)).toEqual(['q4-32-f16', 'f16']);
  const activate = { ...shape, finish: { kind: 'activate', activation: 'gelu-tanh' } } as const;
  const [activated] = await products({ ...arranged, matrix: gateMatrix, shape: activate });
  const upMatrix = (await SegmentedMatrix.load(bench.gpu, columns, ups.sources))!;
  const multiply = { ...shape, finish: { kind: 'multiply' } } as const;
  const [single, grouped] = await products({ ...arranged, matrix: upMatrix, shape: multiply, output: activated });
  const expected = new Float32Array(single.length);
  list.forEach((_, entry) => {
    const named = {
      segment: segmentOf(list, entry),
      x: x.subarray((entry >> 1) * columns, ((entry >> 1) + 1) * columns),
    };
    const [gateSums] = segmentedReference(gate.values, size, [named]);
    const [upSums] = segmentedReference(ups.values, size, [named]);
    gateSums?.forEach((sum, i) => {
      expected[entry * size + i] = activationReference('gelu-tanh', sum) * upSums![i]!;
    });
  });
  expect(largestError(single, expected)).toBeLessThan(1e-4);
  expect(bits(grouped)).toEqual(bits(single));
});

test('what does not fit together is refused', async () => {
  const { sources } = randomSegments(new Random(1), 2, 8, 8, 'f32');
  const matrix = (await SegmentedMatrix.load(bench.gpu, 8, sources))!;
  const step = await bench.rowsStep(1);
  const buffers = { step, input: await bench.zeros(8), output: await bench.zeros(64) };
  const entriesOf = (segments: number, entriesARow: number) =>
    SegmentEntries.create(bench.gpu, { segments, entriesARow, maxRows: 1 }, step);
  const create = async (segments: number, entriesARow: number, shape: Partial<SegmentedShape>) =>
    SegmentedLinear.create(
      bench.gpu,
      matrix,
      await entriesOf(segments, entriesARow),
      { outputStride: 8, input: 'row', ...shape },
      buffers,
    );
  await expect(create(3, 1, {})).rejects.toThrow('entries of 3 segments for a matrix of 2');
  const norm = { epsilon: 1e-5, squares: buffers.input };
  await expect(create(2, 1, { input: 'entry', norm })).rejects.toThrow('norms are of rows');
  await expect(create(2, 1, { finish: { kind: 'gate', activation: 'silu' } })).rejects.toThrow('not paired');
  const wide = randomMatrix(new Random(1), 9, 8, 'f32').source;
  const uneven = [[wide], sources[0]!];
  await expect(SegmentedMatrix.load(bench.gpu, 8, uneven)).rejects.toThrow('8 rows beside segments of 9');
});
