import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { type ModelConfig, parseModelConfig } from '../checkpoint/model-config.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { testDevice } from '../testing/device.ts';
import golden from '../testing/golden/minilm/embeddings.json';
import { readTestFile } from '../testing/read-file.ts';
import { encoderScratchBytes } from './encoder-limits.ts';
import type { EncoderRunner } from './encoder-runner.ts';
import { encoderOf } from './encoders.ts';
import { loadEncoder } from './load-encoder.ts';
import { largestDifference } from './testing/golden-encoders.ts';

// Fetched by `npm run model:minilm`; without it there is nothing to test.
const weights = await readTestFile('models/minilm/model.safetensors').catch(() => undefined);
const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

describe.skipIf(weights === undefined || !long)('all-MiniLM-L6-v2', () => {
  let runner: EncoderRunner;
  let model: ModelConfig;
  beforeAll(async () => {
    const config = new TextDecoder().decode(await readTestFile('models/minilm/config.json'));
    const checkpoint = await openSafetensors(bytesSource('model.safetensors', weights!));
    model = parseModelConfig(config, 'config.json');
    runner = await loadEncoder(await testDevice(), checkpoint, model, {
      ...{ pooling: 'mean', normalised: true, maxLength: 256 },
      ...{ maxRows: 512, maxSequences: 16, scratchBytes: 1 << 26 },
    });
  }, 120_000);
  afterAll(() => runner?.destroy());

  test('it takes the memory that is foretold', () => {
    const config = encoderOf(model).readConfig(model);
    const foretold = runner.weightBytes + encoderScratchBytes(config, 512, 16);
    expect(runner.allocatedBytes / foretold).toBeCloseTo(1, 1);
    expect(runner.weightBytes / weights!.byteLength).toBeCloseTo(1, 1);
  });

  test('vectors are the reference, in one batch as alone', { timeout: 300_000 }, async () => {
    const together = await runner.embed(golden.cases);
    for (const [i, { ids, embedding }] of golden.cases.entries()) {
      const vector = together[i]!;
      const cosine = vector.reduce((sum, x, k) => sum + x * embedding[k]!, 0);
      expect(cosine).toBeGreaterThan(0.9999);
      expect(largestDifference(vector, embedding)).toBeLessThan(golden.tolerance);
      const [alone] = await runner.embed([{ ids }]);
      expect(alone).toEqual(vector);
    }
    // How like any two texts are.
    golden.cosines.forEach((row, a) => {
      row.forEach((expected, b) => {
        const cosine = together[a]!.reduce((sum, x, k) => sum + x * together[b]![k]!, 0);
        expect(Math.abs(cosine - expected)).toBeLessThan(2e-4);
      });
    });
  });
});
