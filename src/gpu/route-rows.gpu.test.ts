import { afterAll, beforeAll, expect, test } from 'vitest';
import { routeReference } from './route-rows.reference.ts';
import { RouteRows } from './route-rows.ts';
import { KernelBench, largestError } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** Rows of logits through the router. */
async function route(rows: readonly Float32Array[], chosen: number, normalised: boolean) {
  const experts = rows[0]!.length;
  const stride = experts + 3;
  const padded = new Float32Array(rows.length * stride).fill(1e4);
  rows.forEach((row, i) => {
    padded.set(row, i * stride);
  });
  const buffers = {
    step: await bench.rowsStep(rows.length),
    logits: await bench.buffer(padded),
    list: await bench.zeros(rows.length * chosen),
    shares: await bench.zeros(rows.length * chosen),
  };
  const kernel = await RouteRows.create(bench.gpu, { experts, chosen, normalised, stride }, buffers);
  // More rows than there are: none writes past its own.
  await bench.run((pass) => kernel.encode(pass, rows.length + 2));
  const list = await bench.readWords(buffers.list, rows.length * chosen);
  const shares = await bench.read(buffers.shares, rows.length * chosen);
  return rows.map((_, i) => ({
    experts: [...list.subarray(i * chosen, (i + 1) * chosen)],
    shares: shares.subarray(i * chosen, (i + 1) * chosen),
  }));
}

test.each([
  [4, 1],
  [4, 4],
  [5, 2],
  [8, 2],
  [60, 4],
  [65, 3],
  [128, 8],
])('of %i experts the %i likeliest are chosen', async (experts, chosen) => {
  const random = new Random(experts);
  const rows = Array.from({ length: 7 }, () => random.normals(experts, 3));
  // Ties, whose order is by index: among all, at the end of the chosen, and of both zeros.
  rows.push(new Float32Array(experts).fill(2));
  rows.push(Float32Array.from({ length: experts }, (_, i) => (i % 2 === 1 ? 1 : 0)));
  rows.push(Float32Array.from({ length: experts }, (_, i) => (i % 2 === 0 ? -0 : 0)));
  // What exp must not see as it is.
  rows.push(Float32Array.from({ length: experts }, (_, i) => (i - 1) * 1e30));
  rows.push(Float32Array.from({ length: experts }, (_, i) => (i === 3 ? 5 : Number.NEGATIVE_INFINITY)));
  rows.push(Float32Array.from({ length: experts }, (_, i) => -3e38 + i * 1e36));
  for (const normalised of [true, false]) {
    const routes = await route(rows, chosen, normalised);
    routes.forEach((actual, i) => {
      const expected = routeReference(rows[i]!, chosen, normalised);
      expect(actual.experts).toEqual(expected.experts);
      expect(largestError(actual.shares, Float32Array.from(expected.shares))).toBeLessThan(1e-6);
    });
  }
});

test('a row of NaN goes to experts that there are, and its shares say so', async () => {
  const rows = [new Float32Array(8).fill(Number.NaN), Float32Array.of(1, 2, Number.NaN, 0, 4, 4, -1, 0)];
  const routes = await route(rows, 3, true);
  for (const { experts, shares } of routes) {
    expect(new Set(experts).size).toBe(3);
    expect(Math.max(...experts)).toBeLessThan(8);
    expect(shares.some(Number.isNaN)).toBe(true);
  }
});

test('more chosen than there are is refused', async () => {
  await expect(route([new Float32Array(4)], 5, true)).rejects.toThrow('5 of 4 experts chosen');
});
