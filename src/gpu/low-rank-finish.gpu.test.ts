import { afterAll, beforeAll, expect, test } from 'vitest';
import { activationReference } from './activation.reference.ts';
import { DeviceWatch } from './device-watch.ts';
import { KernelTrial } from './kernel-trial.ts';
import { linearReference } from './linear.reference.ts';
import { Linear, type LinearFinish } from './linear.ts';
import { type ChooseLinear, MATVEC_COLUMNS } from './linear-choice.ts';
import { linearVariantOf } from './linear-variant.ts';
import { LowRankSlots, shrunkNumbers } from './low-rank-slots.ts';
import { tryLowRank } from './low-rank-trial.ts';
import { lowRankReference } from './low-rank-update.reference.ts';
import { inTileOrder, LowRankUpdate, tiledNumbers } from './low-rank-update.ts';
import { ropeReference } from './rope.reference.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { bits, KernelBench, largestError } from './testing/kernel-bench.ts';
import { anyUpdates, stepOf } from './testing/low-rank.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { WeightMatrix } from './weight-matrix.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** One variant, which compiles fast; those that are taken by default take seconds, and are of the long tier. */
const oneVariant: ChooseLinear = () => {
  const variant = linearVariantOf('plain-8x1-8x1x1-4');
  return { splits: 1, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant };
};

type Finish = Extract<LinearFinish, { kind: 'gate' | 'rotate' }>;

/** What a paired matrix's product leaves with its own finish, and with that of an update, of rows three of which have adapters. */
async function finishes(
  kind: 'gate' | 'rotate',
  { outputs, half, format }: { outputs: readonly number[]; half: number; format?: 'mixed' },
  heads: { heads: number; kvHeads: number; headSize: number },
) {
  const columns = 36;
  const random = new Random(half);
  const all = outputs.reduce((sum, count) => sum + count, 0);
  const parts = outputs.map((count, i) => randomMatrix(random, count, columns, format && i > 0 ? 'bf16' : 'f32'));
  const sources = parts.map(({ source }) => source);
  const matrix = (await WeightMatrix.loadPaired(bench.gpu, columns, sources, half))!;
  expect(matrix.parts.length).toBe(format ? 2 : 1);
  const rows = 9;
  const ofHeads = kind === 'rotate' ? half : undefined;
  const slots = await LowRankSlots.create(bench.gpu, {
    ...{ label: 'test', columns, outputs, maxRank: 7, slots: 2, half: ofHeads },
  });
  const updates = [anyUpdates(random, slots.shape, [7, 1, 4]), anyUpdates(random, slots.shape, [0, 5, 0])];
  updates.forEach((own, slot) => {
    slots.write(slot, own);
  });
  const owners = [1, undefined, 0, 0, undefined, undefined, 0, undefined, undefined];
  const { buffer: step } = await bench.step(stepOf([[1, 1], [1], [2, 0], [2], [1, 0], [2]]));
  const x = random.normals(rows * columns);
  const [input, shrunk, tiles, table] = await Promise.all([
    bench.rows(x, columns),
    bench.zeros(rows * shrunkNumbers(slots.shape)),
    bench.zeros(rows * tiledNumbers(matrix)),
    bench.buffer(ropeTable(2, plainTurns(heads.headSize, 100))),
  ]);
  const stride = 4 * rowWords(kind === 'gate' ? half : heads.heads * heads.headSize);
  const results = async (adapted: boolean) => {
    const kv = await bench.zeros(6 * 2 * heads.kvHeads * 16 * heads.headSize);
    const output = await bench.zeros(rows * stride);
    const finish: Finish = kind === 'gate' ? { kind } : { kind, ...heads, table, kv };
    const product = await Linear.create(
      bench.gpu,
      adapted ? inTileOrder(matrix) : matrix,
      {
        outputStride: adapted ? tiledNumbers(matrix) : stride,
        countWord: 0,
        finish: adapted ? { kind: 'store' } : finish,
      },
      { step, input, output: adapted ? tiles : output },
      LONG ? (part, { normed }) => bench.gpu.choices.linear(part, { finish: kind, normed }) : oneVariant,
    );
    const ofTiles = { tiles, matrix, outputStride: stride };
    const update = await LowRankUpdate.create(
      bench.gpu,
      slots,
      { finish: { ...finish, ...ofTiles } },
      { step, input, shrunk, output },
    );
    await bench.run((pass) => {
      product.encode(pass, rows);
      if (adapted) update.encode(pass, rows);
    });
    return { output: await bench.read(output), kv: await bench.read(kv) };
  };
  // Sums with updates, in float64 but for the matrices.
  const sums = owners.map((owner, row) => {
    const own = x.slice(row * columns, (row + 1) * columns);
    return Float32Array.from(
      outputs.flatMap((count, module) => {
        const update = owner === undefined ? undefined : updates[owner]![module];
        const added = update && lowRankReference(update, own);
        return [...linearReference(parts[module]!.values, count, own)].map((value, i) => value + (added?.[i] ?? 0));
      }),
    );
  });
  expect(sums[0]!.length).toBe(all);
  return { owners, sums, stride, plain: await results(false), adapted: await results(true) };
}

test.each([[5], [64], [171], [32]])('gate and up of %i: activated with what adapters add', async (size) => {
  const heads = { heads: 1, kvHeads: 1, headSize: 4 };
  const { owners, sums, stride, plain, adapted } = await finishes('gate', { outputs: [size, size], half: size }, heads);
  for (const [row, owner] of owners.entries()) {
    const actual = adapted.output.slice(row * stride, row * stride + size);
    if (owner === undefined) {
      expect(bits(actual)).toEqual(bits(plain.output.slice(row * stride, row * stride + size)));
    } else {
      const expected = Float32Array.from({ length: size }, (_, i) => {
        return activationReference('silu', sums[row]![i]!) * sums[row]![size + i]!;
      });
      expect(largestError(actual, expected)).toBeLessThan(2e-5);
    }
  }
});

test.each([
  { heads: 8, kvHeads: 4, headSize: 8 },
  { heads: 3, kvHeads: 3, headSize: 12 },
  { heads: 5, kvHeads: 1, headSize: 4 },
  { heads: 3, kvHeads: 1, headSize: 64 },
  { heads: 3, kvHeads: 1, headSize: 20, format: 'mixed' as const },
])('query, key and value of $heads heads on $kvHeads of $headSize: rotated with what adapters add', async (shape) => {
  const { format, ...heads } = shape;
  const { headSize, kvHeads } = heads;
  const outputs = [heads.heads, kvHeads, kvHeads].map((count) => count * headSize);
  const { owners, sums, stride, plain, adapted } = await finishes(
    'rotate',
    { outputs, half: headSize / 2, ...(format ? { format } : {}) },
    heads,
  );
  const turns = ropeTable(2, plainTurns(headSize, 100));
  const blocks = [0, 1, 2, 2, 3, 3, 4, 5, 5];
  const written = plain.kv.slice();
  for (const [row, owner] of owners.entries()) {
    const position = row > 0 && blocks[row - 1] === blocks[row] ? 1 : 0;
    const query = (of: Float32Array<ArrayBuffer>) => of.slice(row * stride, row * stride + heads.heads * headSize);
    const slot = (head: number) => ((blocks[row]! * 2 * kvHeads + head) * 16 + position) * headSize;
    if (owner === undefined) {
      expect(bits(query(adapted.output))).toEqual(bits(query(plain.output)));
      for (let head = 0; head < 2 * kvHeads; head++) {
        const own = (of: Float32Array<ArrayBuffer>) => bits(of.slice(slot(head), slot(head) + headSize));
        expect(own(adapted.kv)).toEqual(own(plain.kv));
      }
      continue;
    }
    const of = (head: number) => {
      const own = sums[row]!.slice(head * headSize, (head + 1) * headSize);
      return head < heads.heads + kvHeads ? ropeReference(own, turns, position) : own;
    };
    const expected = Float32Array.from(Array.from({ length: heads.heads }, (_, head) => [...of(head)]).flat());
    expect(largestError(query(adapted.output), expected)).toBeLessThan(2e-5);
    for (let head = 0; head < 2 * kvHeads; head++) written.set(of(heads.heads + head), slot(head));
  }
  // The whole pool: what was not to be written is as it was.
  expect(largestError(adapted.kv, written)).toBeLessThan(2e-5);
});

test('all of them pass their trial on this adapter', async () => {
  const watch = new DeviceWatch(bench.gpu.device);
  const trial = new KernelTrial(watch, 60_000);
  await tryLowRank(trial);
  trial.close();
});
