import { expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { openGguf } from '../checkpoint/open-gguf.ts';
import { writeGgufModel } from '../checkpoint/testing/write-gguf-model.ts';
import { quantShape, quantValues } from '../gpu/quant-format.ts';
import { QUANTISED_FORMATS, type Quantisation, quantise } from '../gpu/quantise.ts';
import { bits } from '../gpu/testing/kernel-bench.ts';
import { WEIGHT_FORMATS } from '../gpu/weight-format.ts';
import { referenceDecoder } from '../testing/decoder-reference.ts';
import { readReferenceWeights } from '../testing/decoder-reference-weights.ts';
import { testDevice } from '../testing/device.ts';
import { readTestFile } from '../testing/read-file.ts';
import { openDecoder } from './describe-decoder.ts';
import { loadDecoder } from './load-decoder.ts';
import type { LoadOptions } from './load-options.ts';
import { convertCheckpoint } from './testing/convert-checkpoint.ts';
import { blocksFor, logitsRow } from './testing/generate.ts';
import { goldenDecoder } from './testing/golden-decoder.ts';
import { largestDifference, withTensors } from './testing/golden-encoders.ts';
import { tinyModel } from './testing/tiny-model.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';

/** Logits of every position of `ids`, in one step: experts take groups of rows. */
async function logits(
  checkpoint: Checkpoint,
  config: ModelConfig,
  ids: readonly number[],
  options: Partial<LoadOptions> = {},
): Promise<Float32Array<ArrayBuffer>[]> {
  const runner = await loadDecoder(await testDevice(), checkpoint, config, {
    ...{ kvBlocks: 4, maxRows: ids.length, maxSequences: 1 },
    ...options,
  });
  try {
    return await runner.logits({
      sequences: [{ slot: 0, tokens: ids, startPosition: 0, blockTable: blocksFor(ids.length) }],
      logits: ids.map((_, row) => logitsRow(row, 0)),
    });
  } finally {
    runner.destroy();
  }
}

const IDS = Array.from({ length: 21 }, (_, i) => (i * 17 + 3) % 40);

/** What the reference computes of `ids`. */
async function reference(stored: Checkpoint, modelConfig: ModelConfig, ids: readonly number[]) {
  const { config, names, checkpoint } = openDecoder(stored, modelConfig);
  return referenceDecoder(config, await readReferenceWeights(checkpoint, names, config), [...ids]).logits;
}

function expectNear(actual: readonly Float32Array[], expected: readonly ArrayLike<number>[]) {
  expect(actual.length).toBe(expected.length);
  actual.forEach((row, i) => {
    expect(largestDifference(row, expected[i]!), `position ${i}`).toBeLessThan(2e-3);
  });
}

test('experts cut at the binding limit, inside of one too, and experts from a GGUF file, give the same bits', async () => {
  const { checkpoint, config, ids } = await goldenDecoder('qwen3-moe');
  const tokens = [...ids[0]!];
  const whole = await logits(checkpoint, config, tokens);
  // Gate and up of an expert have two tiles of 12,288 bytes, down one of 10,240.
  for (const bindingLimit of LONG ? [30_000, 17_000] : [17_000]) {
    const cut = await logits(checkpoint, config, tokens, { bindingLimit });
    expect(cut.map(bits), `${bindingLimit}`).toEqual(whole.map(bits));
  }
  const raw = JSON.parse(new TextDecoder().decode(await readTestFile('src/testing/golden/tiny/qwen3-moe/config.json')));
  const metadata = { expert_count: 8, expert_used_count: 2, expert_feed_forward_length: 40 };
  const bytes = await writeGgufModel(checkpoint, raw, { architecture: 'qwen3moe', stacked: true, metadata });
  const file = await openGguf(bytesSource('m.gguf', bytes));
  const ofFile = await logits(file.checkpoint, file.config, tokens);
  expect(ofFile.map(bits)).toEqual(whole.map(bits));
});

test('dense layers between those of experts, and shares that do not add up to 1, are as the reference has them', async () => {
  const { checkpoint, config } = tinyModel(5, { layers: 4, hiddenSize: 20, experts: 5 });
  expectNear(await logits(checkpoint, config, IDS), await reference(checkpoint, config, IDS));
});

test('gate and up of different formats have the bits of one format', async () => {
  const { checkpoint, config } = tinyModel(6, { layers: 2, hiddenSize: 20, experts: 4 });
  const halves = await convertCheckpoint(checkpoint, 'bf16', (name) => /experts/.test(name));
  // The same numbers.
  const up = [...halves.tensors.values()].filter(({ name }) => /experts.*up_proj/.test(name));
  const widened = await Promise.all(
    up.map(async (tensor) => {
      const values = WEIGHT_FORMATS.bf16.decode(await halves.read(tensor), tensor.byteLength / 2);
      return [tensor.name, { shape: tensor.shape, values }] as const;
    }),
  );
  const mixed = withTensors(halves, Object.fromEntries(widened));
  const some = await logits(mixed, config, IDS);
  expect(some.map(bits)).toEqual((await logits(halves, config, IDS)).map(bits));
});

// Compiles for seconds; short tests have the kernels of these formats.
test.runIf(LONG).each(['q8', 'q4'] as const)(
  'experts quantised to %s are those of their values, their router as it was',
  async (quantisation) => {
    const { checkpoint, config } = tinyModel(7, { layers: 2, hiddenSize: 64, intermediateSize: 96, experts: 4 });
    const actual = await logits(checkpoint, config, IDS, { quantisation });
    expectNear(actual, await reference(await quantised(checkpoint, quantisation), config, IDS));
  },
);

/** The values of what a loader quantises: all matrices whose columns are whole blocks but routers. */
async function quantised(checkpoint: Checkpoint, quantisation: Quantisation): Promise<Checkpoint> {
  const { block } = quantShape(QUANTISED_FORMATS[quantisation]);
  const matrices = [...checkpoint.tensors.values()].filter(
    ({ name, shape }) => shape.length === 2 && shape[1]! % block === 0 && !name.endsWith('mlp.gate.weight'),
  );
  const values = await Promise.all(
    matrices.map(async (tensor) => {
      const floats = WEIGHT_FORMATS.f32.decode(await checkpoint.read(tensor), tensor.byteLength / 4);
      const own = quantValues(quantise(floats, quantisation), block);
      return [tensor.name, { shape: tensor.shape, values: own }] as const;
    }),
  );
  return withTensors(checkpoint, Object.fromEntries(values));
}
