import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { attentionReference } from './attention.reference.ts';
import { Attention, type AttentionShape, splitItemBytes } from './attention.ts';
import { type AttentionChoice, attentionChoices } from './attention-choice.ts';
import { tryAttention } from './attention-trial.ts';
import { DeviceWatch } from './device-watch.ts';
import { KernelTrial } from './kernel-trial.ts';
import { KvPool } from './kv-pool.reference.ts';
import type { SequenceEntry } from './pack-step.ts';
import { FIRST_TABLE_WORD } from './step-layout.ts';
import { bits, KernelBench, largestError } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** Kernels with barriers take a second each to compile on a software adapter. */
const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';
const TILES: AttentionChoice = { whole: 'tiles', parts: 'tiles' };

const BLOCKS = 40;
const rowsOf = (sequence: SequenceEntry) => (sequence.tokens === 'slot' ? 1 : sequence.tokens.length);

/** Runs a step over a pool; gives [rows, heads, headSize]. `splitItems` 0 keeps every row in the whole form. */
async function attend(
  shape: AttentionShape,
  sequences: readonly SequenceEntry[],
  query: Float32Array<ArrayBuffer>,
  pool: KvPool,
  splitItems = 1024,
  choice?: AttentionChoice,
  windows?: readonly (number | undefined)[],
) {
  const extras = windows && { copies: [], repeat: 1, windows };
  const { buffer: step, packed } = await bench.step(sequences, [], splitItems, extras);
  const output = await bench.zeros(query.length);
  const buffers = {
    step,
    query: await bench.buffer(query),
    kv: await bench.buffer(pool.values),
    parts: await bench.gpu.storage('parts', Math.max(1, packed.work.splitItems) * splitItemBytes(shape)),
    output,
  };
  const attention = await Attention.create(bench.gpu, shape, buffers, choice);
  await bench.run((pass) => attention.encode(pass, packed.work));
  return { output: await bench.read(output, query.length), work: packed.work };
}

function randomPool(random: Random, shape: AttentionShape): KvPool {
  const pool = new KvPool(BLOCKS, shape.kvHeads, shape.headSize);
  pool.values.set(random.normals(pool.values.length));
  return pool;
}

/** A ragged batch: prefill from 0, a later chunk, decode rows with one and with several splits, a single first row. */
function raggedBatch(random: Random): SequenceEntry[] {
  const blocks = random.permutation(BLOCKS);
  const take = (tokens: number) => blocks.splice(0, Math.ceil(tokens / 16));
  return [
    { slot: 0, tokens: new Uint32Array(19), startPosition: 0, blockTable: take(19) },
    { slot: 1, tokens: 'slot', startPosition: 200, blockTable: take(201) },
    { slot: 2, tokens: new Uint32Array(5), startPosition: 61, blockTable: take(66) },
    { slot: 3, tokens: 'slot', startPosition: 40, blockTable: take(41) },
    { slot: 4, tokens: Uint32Array.of(1), startPosition: 127, blockTable: take(128) },
    { slot: 5, tokens: Uint32Array.of(1), startPosition: 0, blockTable: take(1) },
  ];
}

describe.each([
  [1, 1, 8],
  [2, 1, 64],
  [8, 4, 8],
  [8, 2, 20],
  [7, 1, 80],
  [8, 1, 128],
  [14, 2, 20],
])('%i heads on %i of %i', (heads, kvHeads, headSize) => {
  test.each<[string, Partial<AttentionShape>]>([
    ['causal', {}],
    ['a window of 33', { window: 33 }],
    ['bidirectional', { bidirectional: true }],
    // Kernels of their own: the short tier has them once.
    ...(long || heads === 14
      ? [['scores of another scale, capped', { scale: 0.3, cap: 5 }] satisfies [string, object]]
      : []),
  ])('%s: a ragged batch', async (_, more) => {
    const shape: AttentionShape = { heads, kvHeads, headSize, kvFormat: 'f32', ...more };
    const random = new Random(heads * headSize);
    const sequences = raggedBatch(random);
    const pool = randomPool(random, shape);
    const rows = sequences.reduce((sum, sequence) => sum + rowsOf(sequence), 0);
    // Twice the usual spread, so that attention is far from uniform.
    const query = random.normals(rows * heads * headSize, 2);
    const { output, work } = await attend(shape, sequences, query, pool);
    expect(work).toEqual({ wholeRows: 26, splitRows: 2, splitItems: 6 });
    let row = 0;
    for (const sequence of sequences) {
      const length = sequence.startPosition + rowsOf(sequence);
      for (let i = 0; i < rowsOf(sequence); i++, row++) {
        const position = sequence.startPosition + i;
        for (let head = 0; head < heads; head++) {
          const at = (row * heads + head) * headSize;
          const expected = attentionReference(pool, {
            query: query.slice(at, at + headSize),
            kvHead: Math.floor(head / (heads / kvHeads)),
            blockTable: sequence.blockTable,
            first: shape.window ? Math.max(0, position + 1 - shape.window) : 0,
            end: shape.bidirectional ? length : position + 1,
            scale: shape.scale,
            cap: shape.cap,
          });
          expect(largestError(output.slice(at, at + headSize), expected)).toBeLessThan(2e-5);
        }
      }
    }
    if (long || headSize === 64 || heads === 14) {
      const tiles = await attend(shape, sequences, query, pool, 1024, TILES);
      expect(bits(tiles.output)).toEqual(bits(output));
    }
  });
});

/** Two groups' windows: those of the layers that see most, which the list of parts is made by, and this layer's. */
const WINDOWS = [
  [undefined, undefined],
  [undefined, 70],
  [150, 70],
  [70, 70],
  [undefined, 3],
] as const;

test.each(WINDOWS)(
  'parts by a window of %s: layers with one of %s have the bits of whole rows',
  async (most, window) => {
    const shape: AttentionShape = {
      heads: 4,
      kvHeads: 2,
      headSize: 20,
      kvFormat: 'f32',
      ...(window ? { window } : {}),
    };
    const random = new Random(77);
    const pool = randomPool(random, shape);
    const blockTable = random.permutation(BLOCKS);
    // Of the first group: this layer goes by that of the second.
    const wrong = random.permutation(BLOCKS);
    const ofSecond = { ...shape, tableWord: FIRST_TABLE_WORD + 1 };
    const rows = 300;
    const rowSize = shape.heads * shape.headSize;
    const query = random.normals(rows * rowSize, 2);
    const all = bits(
      (await attend(shape, [{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable }], query, pool))
        .output,
    );
    for (const [from, to] of [
      [0, 63],
      [63, 64],
      [64, 65],
      [65, 130],
      [126, 129],
      [190, 194],
      [255, 256],
      [256, 300],
      [299, 300],
    ] as const) {
      const tables = { blockTable: wrong, moreTables: [blockTable] };
      const chunk = [{ slot: 0, tokens: new Uint32Array(to - from), startPosition: from, ...tables }];
      const some = query.slice(from * rowSize, to * rowSize);
      for (const splitItems of [0, 1024]) {
        const windows = [most, window];
        const { output, work } = await attend(ofSecond, chunk, some, pool, splitItems, undefined, windows);
        const firstSplit = most === undefined ? 0 : Math.floor(Math.max(0, from + 1 - most) / 64);
        const splits = Math.ceil(to / 64) - firstSplit;
        expect(work.splitRows).toBe(splitItems > 0 && to - from <= 4 && splits > 1 ? to - from : 0);
        expect(bits(output)).toEqual(all.slice(from * rowSize, to * rowSize));
        if (splitItems > 0 && work.splitRows > 0) {
          const tiles = await attend(ofSecond, chunk, some, pool, splitItems, TILES, windows);
          expect(bits(tiles.output)).toEqual(bits(output));
        }
      }
    }
  },
);

test('rows that the scratch has no room for take the whole form', async () => {
  const shape: AttentionShape = { heads: 2, kvHeads: 1, headSize: 8, kvFormat: 'f32' };
  const random = new Random(78);
  const pool = randomPool(random, shape);
  const sequences: SequenceEntry[] = [0, 1, 2].map((slot) => ({
    slot,
    tokens: 'slot',
    startPosition: 150 + slot,
    blockTable: random.permutation(BLOCKS),
  }));
  const query = random.normals(3 * 16);
  const roomy = await attend(shape, sequences, query, pool);
  const tight = await attend(shape, sequences, query, pool, 7);
  expect(roomy.work).toEqual({ wholeRows: 0, splitRows: 3, splitItems: 9 });
  expect(tight.work).toEqual({ wholeRows: 1, splitRows: 2, splitItems: 6 });
  expect(bits(tight.output)).toEqual(bits(roomy.output));
});

test.skipIf(!long)(
  'tiles of any lines give the bits of threads, whatever is split',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom([1, 1, 64], [6, 2, 32], [9, 3, 64], [20, 1, 16], [32, 4, 128]),
        fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 150 })), {
          minLength: 1,
          maxLength: 5,
        }),
        fc.constantFrom({}, { window: 20 }, { window: 100 }),
        fc.integer({ min: 0, max: 1 << 20 }),
        async ([heads, kvHeads, headSize], lengths, more, seed) => {
          const shape = { heads: heads!, kvHeads: kvHeads!, headSize: headSize!, kvFormat: 'f32', ...more } as const;
          const random = new Random(seed);
          const pool = randomPool(random, shape);
          // Sequences share blocks: nothing is written here.
          const sequences = lengths.map(([rows, startPosition], slot): SequenceEntry => {
            const blockTable = random.permutation(BLOCKS).slice(0, Math.ceil((rows + startPosition) / 16));
            return { slot, tokens: new Uint32Array(rows), startPosition, blockTable };
          });
          const rows = lengths.reduce((sum, [count]) => sum + count, 0);
          const query = random.normals(rows * heads! * headSize!, 2);
          const splitItems = seed % 3 === 0 ? 0 : 1024;
          const threads = await attend(shape, sequences, query, pool, splitItems);
          for (const choice of attentionChoices(shape).slice(1)) {
            const { output } = await attend(shape, sequences, query, pool, splitItems, choice);
            expect(bits(output)).toEqual(bits(threads.output));
          }
        },
      ),
      { numRuns: 25 },
    );
  },
  300_000,
);

test.each([{}, { window: 33 }, { bidirectional: true }, { scale: 1, cap: 3 }])(
  'the self-test knows which keys a row of %o sees',
  async (more) => {
    const trial = new KernelTrial(new DeviceWatch(bench.gpu.device), 30_000);
    try {
      await tryAttention(trial, { heads: 2, kvHeads: 1, headSize: 64, kvFormat: 'f32', ...more }, 'threads');
    } finally {
      trial.close();
    }
  },
);

test('heads that are too large for tiles are refused', async () => {
  const shape: AttentionShape = { heads: 1, kvHeads: 1, headSize: 256, kvFormat: 'f32' };
  const pool = new KvPool(1, 1, 256);
  const sequences: SequenceEntry[] = [{ slot: 0, tokens: 'slot', startPosition: 0, blockTable: [0] }];
  expect(attentionChoices(shape)).toHaveLength(1);
  await expect(attend(shape, sequences, new Float32Array(256), pool, 0, TILES)).rejects.toThrow(/256 numbers/);
});
