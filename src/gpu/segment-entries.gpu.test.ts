import { afterAll, beforeAll, expect, test } from 'vitest';
import { GROUP_ENTRIES, NO_SEGMENT, SegmentEntries } from './segment-entries.ts';
import { KernelBench } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

const NO_ENTRY = 0xffffffff;

test.each([
  [1, 1, 1],
  [4, 2, 1],
  [128, 8, 3],
  [3, 2, 200],
  [128, 8, 150],
])('entries of %i segments, %i a row of %i, are each in one group of their segment', async (segments, own, rows) => {
  const random = new Random(rows);
  const step = await bench.rowsStep(rows);
  const entries = await SegmentEntries.create(bench.gpu, { segments, entriesARow: own, maxRows: rows + 5 }, step);
  const list = Uint32Array.from({ length: rows * own }, () =>
    random.uniform() < 0.1 ? NO_SEGMENT : random.integer(0, segments - 1),
  );
  bench.gpu.device.queue.writeBuffer(entries.list, 0, list);
  // Twice: what a step before left is no part of it.
  for (let turn = 0; turn < 2; turn++) {
    await bench.run((pass) => entries.group(pass));
    const words = await bench.readWords(entries.groups);
    const count = words[0]!;
    expect(count).toBeLessThanOrEqual(entries.mostGroups(rows));
    const seen: number[] = [];
    let groups = 0;
    for (let segment = 0; segment < segments; segment++) {
      groups += Math.ceil(list.filter((named) => named === segment).length / GROUP_ENTRIES);
    }
    expect(count).toBe(groups);
    for (let group = 0; group < count; group++) {
      const [segment, ...members] = words.subarray(1 + group * 5, 6 + group * 5);
      const named = members.filter((entry) => entry !== NO_ENTRY);
      expect(named.length).toBeGreaterThan(0);
      for (const entry of named) expect(list[entry]).toBe(segment);
      seen.push(...named);
    }
    const expected = [...list.keys()].filter((entry) => list[entry] !== NO_SEGMENT);
    expect(seen.sort((a, b) => a - b)).toEqual(expected);
  }
});

test('groups come with two entries a segment', async () => {
  const step = await bench.rowsStep(1);
  const entries = await SegmentEntries.create(bench.gpu, { segments: 8, entriesARow: 2, maxRows: 20 }, step);
  expect([1, 8, 9].map((rows) => entries.grouped(rows))).toEqual([false, false, true]);
  const none = SegmentEntries.create(bench.gpu, { segments: 0, entriesARow: 2, maxRows: 20 }, step);
  await expect(none).rejects.toThrow('0 segments');
});
