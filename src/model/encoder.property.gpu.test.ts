import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { testDevice } from '../testing/device.ts';
import { CpuEncoder } from './cpu-encoder.ts';
import { encoderLimits } from './encoder-limits.ts';
import { encoderOf } from './encoders.ts';
import { loadEncoder } from './load-encoder.ts';
import { largestDifference } from './testing/golden-encoders.ts';
import { type EncoderShape, randomEncoder } from './testing/random-encoder.ts';

const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

const SHAPES = fc.record({
  architecture: fc.constantFrom(
    ...['BertModel', 'BertForSequenceClassification', 'XLMRobertaModel', 'XLMRobertaForSequenceClassification'],
  ),
  layers: fc.integer({ min: 1, max: 2 }),
  heads: fc.integer({ min: 1, max: 5 }),
  headSize: fc.constantFrom(4, 12, 20, 32, 64),
  intermediateSize: fc.integer({ min: 1, max: 150 }),
  vocabSize: fc.integer({ min: 8, max: 200 }),
  positions: fc.integer({ min: 40, max: 90 }),
  tokenTypes: fc.integer({ min: 1, max: 3 }),
  activation: fc.constantFrom('gelu', 'gelu_new', 'relu'),
  padTokenId: fc.integer({ min: 0, max: 5 }),
  labels: fc.integer({ min: 1, max: 6 }),
} satisfies Record<keyof EncoderShape, unknown>);

test.skipIf(!long)('random encoders are the reference to 1e-3, in any company', { timeout: 600_000 }, async () => {
  const device = await testDevice();
  await fc.assert(
    fc.asyncProperty(
      SHAPES,
      fc.constantFrom('mean' as const, 'cls' as const, 'last' as const, 'max' as const),
      fc.boolean(),
      fc.array(fc.integer({ min: 1, max: 34 }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 1 << 20 }),
      async (shape, pooling, normalised, lengths, seed) => {
        const { config, checkpoint } = randomEncoder(seed, shape);
        const family = encoderOf(config);
        const read = family.readConfig(config);
        const reference = new CpuEncoder(
          read,
          family.tensorNames(read, (name) => checkpoint.tensors.has(name)),
          checkpoint,
        );
        const random = new Random(seed + 1);
        const sequences = lengths.map((length) => ({
          // Padding's id among them: it has a position of its own in RoBERTa.
          ids: Uint32Array.from({ length }, () => random.integer(0, Math.min(7, shape.vocabSize - 1))),
          typeIds: Uint32Array.from({ length }, () => random.integer(0, shape.tokenTypes - 1)),
        }));
        const options = { maxRows: 140, maxSequences: 4, scratchBytes: 1 << 26 };
        const runner = await loadEncoder(device, checkpoint, config, { ...options, pooling, normalised });
        try {
          const vectors = await runner.embed(sequences);
          for (const [i, sequence] of sequences.entries()) {
            const expected = await reference.embed(sequence, pooling, normalised);
            expect(largestDifference(vectors[i]!, expected)).toBeLessThan(1e-3);
          }
          expect((await runner.embed(sequences.slice(-1)))[0]).toEqual(vectors.at(-1));
        } finally {
          runner.destroy();
        }
      },
    ),
    { numRuns: 40 },
  );
});

test('what is taken follows from the memory there is', () => {
  const { config } = randomEncoder(1, { positions: 2048, heads: 4, headSize: 64, intermediateSize: 1024 });
  const read = encoderOf(config).readConfig(config);
  const options = { pooling: 'mean', normalised: true, maxRows: 512, maxSequences: 8 } as const;
  const limitsOf = (scratchBytes: number, bindingLimit = 1 << 27) =>
    encoderLimits(read, { ...options, scratchBytes }, bindingLimit);
  expect(limitsOf(1 << 30)).toMatchObject({ maxRows: 512, contextLength: 2048, longest: 2048 });
  expect(limitsOf(1 << 30, 1 << 22).longest).toBeLessThan(2048);
  const few = limitsOf(1 << 22);
  expect(few.longest).toBeLessThan(512);
  expect(few.maxRows).toBe(few.longest);
  expect(() => limitsOf(1 << 12)).toThrow(/activations of 16 ids/);
  expect(encoderLimits(read, { ...options, scratchBytes: 1 << 30, maxLength: 100 }, 1 << 27)).toMatchObject({
    ...{ contextLength: 100, longest: 100, maxRows: 512 },
  });
  // Fewer than a block of ids, because nobody asks for more.
  const short = { ...options, scratchBytes: 1 << 30, maxLength: 8, maxRows: 8 };
  expect(encoderLimits(read, short, 1 << 27)).toMatchObject({ longest: 8, maxRows: 8 });
  expect(() => encoderLimits(read, short, 1 << 10)).toThrow(/binding limit of 1024 bytes/);
});
