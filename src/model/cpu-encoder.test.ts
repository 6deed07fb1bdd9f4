import { describe, expect, test } from 'vitest';
import { CpuEncoder } from './cpu-encoder.ts';
import { encoderOf } from './encoders.ts';
import { GOLDEN_ENCODERS, GOLDEN_SEQUENCES, goldenModel, largestDifference } from './testing/golden-encoders.ts';

describe.each(GOLDEN_ENCODERS)('%s', (name) => {
  test.each(GOLDEN_SEQUENCES)('sequence %i is the reference to 1e-4', async (index) => {
    const model = await goldenModel(name);
    const family = encoderOf(model.config);
    const config = family.readConfig(model.config);
    const names = family.tensorNames(config, (tensor) => model.checkpoint.tensors.has(tensor));
    const encoder = new CpuEncoder(config, names, model.checkpoint);
    const sequence = await model.sequence(index);
    const close = async (actual: ArrayLike<number>, tensor: string) => {
      expect(largestDifference(actual, (await model.golden(`${tensor}_${index}`))!)).toBeLessThan(1e-4);
    };
    const hidden = await encoder.lastHidden(sequence);
    await close(
      hidden.flatMap((row) => [...row]),
      'last_hidden',
    );
    if (config.classifier) await close(await encoder.embed(sequence, 'cls', false), 'logits');
    else {
      await close(await encoder.embed(sequence, 'mean', true), 'mean');
      await close(await encoder.embed(sequence, 'cls', true), 'cls');
    }
    if (await model.golden(`pooler_${index}`)) {
      const prefix = config.classifier ? 'bert.' : '';
      const pooler = { weight: `${prefix}pooler.dense.weight`, bias: `${prefix}pooler.dense.bias` };
      await close((await encoder.pooler(pooler, hidden))[0]!, 'pooler');
    }
  });
});
