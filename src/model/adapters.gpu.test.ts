import { describe, expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { writeSafetensors } from '../checkpoint/testing/write-safetensors.ts';
import { bits } from '../gpu/testing/kernel-bench.ts';
import { testDevice } from '../testing/device.ts';
import { adapterBytes } from './adapter-bytes.ts';
import { adapterSites } from './adapter-sites.ts';
import type { GpuRunner } from './gpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { LoadOptions } from './load-options.ts';
import type { StepSequence } from './runner.ts';
import { blocksFor, generate, logitsRow } from './testing/generate.ts';
import {
  GOLDEN_ADAPTERS,
  goldenAdapter,
  goldenValues,
  largestDifference,
  logitsOf,
  tinyLlama,
} from './testing/golden-adapters.ts';
import { goldenDecoder } from './testing/golden-decoder.ts';
import { mergedCheckpoint } from './testing/merged-checkpoint.ts';
import { randomAdapter } from './testing/random-adapter.ts';
import { type TinyShape, tinyModel } from './testing/tiny-model.ts';

/** Each model compiles kernels of its own, which takes a while on a software adapter. */
const LONG = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

const OPTIONS = { kvBlocks: 24, maxRows: 96, maxSequences: 8 };

async function using(options: LoadOptions, use: (runner: GpuRunner) => Promise<void>, model = tinyLlama()) {
  const { checkpoint, config } = await model;
  const runner = await loadDecoder(await testDevice(), checkpoint, config, options);
  try {
    await use(runner);
  } finally {
    runner.destroy();
  }
}

/** Rows of a sequence in slot `slot`, with blocks of its own. */
function sequenceOf(slot: number, ids: readonly number[], adapter: number | undefined): StepSequence {
  const adapted = adapter === undefined ? {} : { adapter };
  return { slot, tokens: ids, startPosition: 0, blockTable: blocksFor(ids.length, 3 * slot), ...adapted };
}

test('golden adapters agree with the reference; beside others each has the bits that it has alone', async () => {
  await using({ ...OPTIONS, adapters: { most: 3, maxRank: 8 } }, async (runner) => {
    const before = runner.allocatedBytes;
    const golden = await Promise.all([undefined, ...GOLDEN_ADAPTERS].map((name) => goldenValues(name)));
    const ids = golden[0]!.inputs;
    const plain = await logitsOf(runner, ids[0]!, undefined);
    expect(runner.allocatedBytes).toBe(before);
    for (const [slot, name] of GOLDEN_ADAPTERS.entries()) await runner.loadAdapter(slot, await goldenAdapter(name));
    // What was foreseen, and the uniforms of kernels.
    const { config } = await tinyLlama();
    const foreseen = adapterBytes(adapterSites(config), { most: 3, maxRank: 8 }, OPTIONS.maxRows);
    expect((runner.allocatedBytes - before) / foreseen).toBeGreaterThanOrEqual(1);
    expect((runner.allocatedBytes - before) / foreseen).toBeLessThan(1.05);
    // Of the first slot's adapter nothing is left in the third.
    await runner.loadAdapter(2, await goldenAdapter('llama-r4-all'));
    await runner.loadAdapter(2, await goldenAdapter('llama-r8-qv-rslora'));
    const alone = new Map<number | undefined, Float32Array<ArrayBuffer>[]>();
    for (const slot of [undefined, 0, 1, 2]) {
      for (const sequence of LONG ? [0, 1] : [0]) {
        const logits = await logitsOf(runner, ids[sequence]!, slot);
        const expected = golden[slot === undefined ? 0 : slot === 0 ? 1 : 2]!;
        expect(largestDifference(logits, expected.logits[sequence]!)).toBeLessThan(2e-3);
        if (sequence === 0) alone.set(slot, logits);
      }
    }
    expect(alone.get(2)!.map(bits)).toEqual(alone.get(1)!.map(bits));
    // Kernels for adapters leave a row without one its bits, in steps without any and with some.
    expect(alone.get(undefined)!.map(bits)).toEqual(plain.map(bits));
    const slots = [1, undefined, 0, undefined, 2];
    const short = ids[0]!.slice(0, 19);
    const mixed = await runner.logits({
      sequences: slots.map((adapter, slot) => sequenceOf(slot, short, adapter)),
      logits: slots.flatMap((_, slot) => short.map((_id, row) => logitsRow(slot * short.length + row, slot))),
    });
    for (const [i, adapter] of slots.entries()) {
      const own = mixed.slice(i * short.length, (i + 1) * short.length);
      expect(own.map(bits), `sequence ${i}`).toEqual(alone.get(adapter)!.slice(0, short.length).map(bits));
    }
    for (const [slot, values] of golden.slice(1).entries()) {
      const tokens = LONG ? 24 : 6;
      const rows = await generate(runner, values.inputs[0]!.slice(0, 20), tokens, {}, {}, slot);
      expect(rows.map(({ id }) => id)).toEqual(values.greedy[0]!.slice(0, tokens));
    }
  });
});

test('an adapter that is refused leaves its slot as it was; none are taken without slots', async () => {
  await using({ ...OPTIONS, adapters: { most: 1, maxRank: 4 } }, async (runner) => {
    await expect(runner.loadAdapter(1, await goldenAdapter('llama-r4-all'))).rejects.toThrow('slot 1 is not below 1');
    await expect(runner.loadAdapter(0, await goldenAdapter('llama-r8-qv-rslora'))).rejects.toThrow(/rank 8, at most 4/);
    expect(await runner.loadAdapter(0, await goldenAdapter('llama-r4-all'))).toEqual({ rank: 4 });
    const golden = await goldenValues('llama-r4-all');
    await expect(runner.loadAdapter(0, await goldenAdapter('llama-r8-qv-rslora'))).rejects.toThrow(/rank 8/);
    const logits = await logitsOf(runner, golden.inputs[0]!, 0);
    expect(largestDifference(logits, golden.logits[0]!)).toBeLessThan(2e-3);
  });
});

test('slots that there is no room for are refused, and nothing of them is kept', async () => {
  const adapters = { most: 64, maxRank: 64 };
  // Those of gate and up are over the limit; those before them are not.
  await using({ ...OPTIONS, adapters, bindingLimit: 4 << 20 }, async (runner) => {
    const before = runner.allocatedBytes;
    await expect(runner.loadAdapter(0, await goldenAdapter('llama-r4-all'))).rejects.toThrow(
      /gate \| up 0: B of 64 adapters/,
    );
    expect(runner.allocatedBytes).toBe(before);
  });
});

test.skipIf(!LONG)('of a model that reads images too, an adapter may have the names of its text part', async () => {
  const { checkpoint, config, ids } = await goldenDecoder('gemma3');
  const both = { ...config, architectures: ['Gemma3ForConditionalGeneration'] };
  const own = randomAdapter(5, config);
  const file = await openSafetensors(own.weights);
  const header: Record<string, unknown> = {};
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const tensor of file.tensors.values()) {
    const { dtype, shape, byteLength } = tensor;
    const name = tensor.name.replace('.model.layers.', '.model.language_model.layers.');
    header[name] = { dtype, shape, data_offsets: [at, at + byteLength] };
    parts.push(await file.read(tensor));
    at += byteLength;
  }
  const data = Uint8Array.from(parts.flatMap((part) => [...part]));
  const named = { ...own, weights: bytesSource('adapter_model.safetensors', writeSafetensors(header, data)) };
  const tokens = [...ids[0]!.subarray(0, 20)];
  await using(
    { ...OPTIONS, adapters: { most: 2, maxRank: 4 } },
    async (runner) => {
      await runner.loadAdapter(0, own);
      await runner.loadAdapter(1, named);
      const [plain, expected, actual] = [
        await logitsOf(runner, tokens, undefined),
        await logitsOf(runner, tokens, 0),
        await logitsOf(runner, tokens, 1),
      ];
      expect(actual.map(bits)).toEqual(expected.map(bits));
      expect(largestDifference(plain, actual)).toBeGreaterThan(0.1);
    },
    Promise.resolve({ checkpoint, config: both }),
  );
});

/** Logits with an adapter against those of weights that it is merged into. */
async function compareMerged(
  model: { readonly checkpoint: LoadModel['checkpoint']; readonly config: LoadModel['config'] },
  { rank = 6, quantisation, transposed = false }: { rank?: number; quantisation?: 'q4' | 'q8'; transposed?: boolean },
  ids: readonly number[],
) {
  const { checkpoint, config } = model;
  const adapter = randomAdapter(rank, config, { rank });
  const merged = await mergedCheckpoint(checkpoint, config, adapter, { quantisation, transposed });
  let expected: Float32Array[] = [];
  await using(
    OPTIONS,
    async (runner) => {
      expected = await logitsOf(runner, ids, undefined);
    },
    Promise.resolve({ checkpoint: merged, config }),
  );
  const options = { ...OPTIONS, adapters: { most: 2, maxRank: rank + 1 }, ...(quantisation ? { quantisation } : {}) };
  await using(
    options,
    async (runner) => {
      await runner.loadAdapter(1, adapter);
      const plain = await logitsOf(runner, ids, undefined);
      const logits = await logitsOf(runner, ids, 1);
      expect(largestDifference(logits, expected)).toBeLessThan(1e-3);
      // It does something.
      expect(largestDifference(plain, logits)).toBeGreaterThan(0.1);
    },
    Promise.resolve(model),
  );
}
type LoadModel = Awaited<ReturnType<typeof tinyLlama>>;

describe('an adapter gives the logits of weights that it is merged into', () => {
  const SHAPES: readonly (readonly [TinyShape, { rank?: number; quantisation?: 'q4' | 'q8' }])[] = [
    [{ layers: 2, hiddenSize: 24, intermediateSize: 43, headSize: 12, heads: 3, kvHeads: 3 }, { rank: 1 }],
    [
      { layers: 2, hiddenSize: 64, intermediateSize: 96, headSize: 16, kvHeads: 1 },
      { rank: 16, quantisation: 'q4' },
    ],
    [
      { layers: 1, hiddenSize: 96, intermediateSize: 32, headSize: 8, tiedHead: true },
      { rank: 64, quantisation: 'q8' },
    ],
  ];
  test.skipIf(!LONG).each(SHAPES)('%j, %j', async (shape, how) => {
    const model = tinyModel(3, shape);
    await compareMerged(
      model,
      how,
      Array.from({ length: 20 }, (_, i) => (i * 11) % 40),
    );
  });

  // Transposed weights, LayerNorms, biases; no pairs.
  const SOME = ['gpt2'] as const;
  const MORE = ['phi3', 'gemma2', 'qwen2', 'qwen3', 'olmo2', 'granite', 'mistral', 'smollm3', 'qwen3-moe'] as const;
  test.each([...SOME, ...(LONG ? MORE : [])])('%s', async (name) => {
    const model = await goldenDecoder(name);
    await compareMerged(model, { transposed: name === 'gpt2' }, [...model.ids[0]!.subarray(0, 40)]);
  });
});
