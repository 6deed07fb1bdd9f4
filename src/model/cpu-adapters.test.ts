import { beforeAll, describe, expect, it } from 'vitest';
import { CpuRunner } from './cpu-runner.ts';
import { generate } from './testing/generate.ts';
import {
  GOLDEN_ADAPTERS,
  goldenAdapter,
  goldenValues,
  largestDifference,
  logitsOf,
  tinyLlama,
} from './testing/golden-adapters.ts';

let runner: CpuRunner;
beforeAll(async () => {
  const { checkpoint, config } = await tinyLlama();
  const adapters = { most: 2, maxRank: 8 };
  runner = await CpuRunner.load(checkpoint, config, { kvBlocks: 8, maxRows: 64, maxSequences: 2, adapters });
  for (const [slot, name] of GOLDEN_ADAPTERS.entries()) await runner.loadAdapter(slot, await goldenAdapter(name));
});

describe.each([undefined, ...GOLDEN_ADAPTERS])('the reference runner with %s', (name) => {
  it('has the logits and greedy ids of the reference', async () => {
    const golden = await goldenValues(name);
    const slot = name === undefined ? undefined : GOLDEN_ADAPTERS.indexOf(name);
    const ids = golden.inputs[1]!;
    expect(largestDifference(await logitsOf(runner, ids, slot), golden.logits[1]!)).toBeLessThan(2e-3);
    const rows = await generate(runner, golden.inputs[0]!.slice(0, 20), 24, {}, {}, slot);
    expect(rows.map(({ id }) => id)).toEqual(golden.greedy[0]);
  });
});

it('an adapter of a rank over the limit is refused by name, and the slot keeps the one it has', async () => {
  const { checkpoint, config } = await tinyLlama();
  const options = { kvBlocks: 8, maxRows: 64, maxSequences: 2 };
  const small = await CpuRunner.load(checkpoint, config, { ...options, adapters: { most: 1, maxRank: 4 } });
  expect(await small.loadAdapter(0, await goldenAdapter('llama-r4-all'))).toEqual({ rank: 4 });
  const wide = small.loadAdapter(0, await goldenAdapter('llama-r8-qv-rslora'));
  await expect(wide).rejects.toThrow(/self_attn\.q_proj: rank 8, at most 4/);
  const golden = await goldenValues('llama-r4-all');
  const rows = await generate(small, golden.inputs[0]!.slice(0, 20), 3, {}, {}, 0);
  expect(rows.map(({ id }) => id)).toEqual(golden.greedy[0]!.slice(0, 3));
  await expect(small.loadAdapter(1, await goldenAdapter('llama-r4-all'))).rejects.toThrow('slot 1 is not below 1');
});
