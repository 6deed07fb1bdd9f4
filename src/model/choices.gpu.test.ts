import { describe, expect, test } from 'vitest';
import { defaultChoices } from '../gpu/kernel-choices.ts';
import { candidates } from '../gpu/linear-candidates.ts';
import type { ChooseLinear } from '../gpu/linear-choice.ts';
import { isFast } from '../gpu/linear-variant.ts';
import { testDevice } from '../testing/device.ts';
import { loadDecoder } from './load-decoder.ts';
import type { SampledRow } from './runner.ts';
import { generate } from './testing/generate.ts';
import { tinyModel } from './testing/tiny-model.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';

/** What a GPU with every feature may have; here with stand-ins for halves and fragments. */
const FEATURES = {
  has: () => true,
  packedDot: true,
  software: false,
  fragments: [{ component: 'f32', result: 'f32', m: 8, n: 8, k: 8, subgroup: 32 }],
} as const;

// SwiftShader takes a minute to compile what is made for GPUs.
describe.runIf(LONG)('a model of what may win on a GPU', () => {
  test.each([undefined, 'q8'] as const)(
    'gives the logprobs that it gives by default (%s)',
    async (quantisation) => {
      const device = await testDevice();
      const shape = { layers: 1, hiddenSize: 64, intermediateSize: 96, heads: 4, kvHeads: 2, headSize: 16 };
      const { checkpoint, config } = tinyModel(5, shape);
      const prompt = Array.from({ length: 21 }, (_, i) => (7 * i) % 40);
      const defaults = defaultChoices(device);
      /** Rows of a prompt and of two decoded tokens. */
      const run = async (linear: ChooseLinear): Promise<SampledRow[]> => {
        const runner = await loadDecoder(device, checkpoint, config, {
          ...{ kvBlocks: 4, maxRows: 32, maxSequences: 1 },
          ...(quantisation ? { quantisation } : {}),
          choices: { ...defaults, linear },
        });
        const rows = await generate(runner, prompt, 3, { logprob: true, topLogprobs: 4 });
        runner.destroy();
        return rows;
      };
      const expected = await run(defaults.linear);
      const count = quantisation ? 6 : 5;
      for (let i = 0; i < count; i++) {
        const paths = new Set<string>();
        const rows = await run((part, form) => {
          const all = candidates(part, form, FEATURES, 'fast');
          expect(all.length).toBe(count);
          for (const { path } of [...all[i]!.matvec, all[i]!.matmul]) paths.add(path);
          if (paths.has('quads') && !device.features.has('subgroups')) return defaults.linear(part, form);
          return all[i]!;
        });
        const fast = [...paths].some((path) => isFast(path as Parameters<typeof isFast>[0]));
        const logprob = ({ logprob: own }: SampledRow) => own!;
        expect(Math.abs(logprob(rows[0]!) - logprob(expected[0]!))).toBeLessThan(fast ? 0.1 : 1e-4);
        if (fast) continue;
        expect(rows.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
        rows.forEach((row, at) => {
          expect(Math.abs(logprob(row) - logprob(expected[at]!))).toBeLessThan(1e-4);
        });
      }
    },
    400_000,
  );
});
