import { describe, expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { defaultChoices } from '../gpu/kernel-choices.ts';
import type { LinearChoice } from '../gpu/linear-choice.ts';
import { checkVariant, type LinearForm, type LinearPath } from '../gpu/linear-variant.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { isQuantFormat, type MatrixFormat } from '../gpu/weight-format.ts';
import { vectorToleranceOf } from '../relay/audit/tolerance.ts';
import { testDevice } from '../testing/device.ts';
import golden from '../testing/golden/minilm/embeddings.json';
import { readTestFile } from '../testing/read-file.ts';
import { loadEncoder } from './load-encoder.ts';

// Fetched by `npm run model:minilm`; without it there is nothing to measure.
const weights = await readTestFile('models/minilm/model.safetensors').catch(() => undefined);
const LONG = import.meta.env.SHOAL_LONG === '1';

/** One variant for all columns: what compiles in little time, and rounds as every other of its path does. */
function choiceOf(path: LinearPath, chains: 1 | 4, form: LinearForm, format: MatrixFormat): LinearChoice {
  const variant = { path, rows: 8, columns: 4, threads: 8, columnThreads: 1, splitThreads: 1, chains } as const;
  checkVariant(variant, form, format);
  return { splits: 1, matvec: Array.from({ length: 8 }, () => variant), matmul: variant };
}

type Choose = (form: LinearForm, format: MatrixFormat) => LinearChoice;

/** Kernels of honest nodes. Those of halves are not among them: a software adapter has none, and they round less than 8-bit products. */
const PLAIN: Choose = (form, format) => choiceOf('plain', 4, form, format);
const OTHER_ORDER: Choose = (form, format) => choiceOf('plain', 1, form, format);
const DOTS: Choose = (form, format) =>
  choiceOf(isQuantFormat(format) ? 'dot' : 'plain', isQuantFormat(format) ? 1 : 4, form, format);

async function vectorsOf(quantisation: Quantisation, choose: Choose): Promise<Float32Array[]> {
  const device = await testDevice();
  const config = new TextDecoder().decode(await readTestFile('models/minilm/config.json'));
  const checkpoint = await openSafetensors(bytesSource('model.safetensors', weights!));
  const runner = await loadEncoder(device, checkpoint, parseModelConfig(config, 'config.json'), {
    ...{ pooling: 'mean', normalised: true, maxLength: 256, quantisation },
    ...{ maxRows: 512, maxSequences: 16, scratchBytes: 1 << 26 },
    choices: { ...defaultChoices(device), linear: ({ format }, form) => choose(form, format) },
  });
  try {
    return await runner.embed(golden.cases);
  } finally {
    runner.destroy();
  }
}

/** As judgeVector has it: of vectors of length 1, what their tolerance is held against. */
function apart(some: readonly Float32Array[], others: readonly Float32Array[]): number[] {
  const off = some.map((one, i) => Math.hypot(...one.map((value, at) => value - others[i]![at]!)) / Math.SQRT2);
  return off.sort((a, b) => a - b);
}

describe.skipIf(weights === undefined || !LONG)('the tolerances of audits of vectors', () => {
  test('are over four times what lies between honest nodes, and under what lies between two texts', async () => {
    const plain = { q8: await vectorsOf('q8', PLAIN), q4: await vectorsOf('q4', PLAIN) };
    const texts = plain.q8.flatMap((one, i) =>
      apart(
        plain.q8.slice(0, i),
        plain.q8.slice(0, i).map(() => one),
      ),
    );
    const table: Record<string, Record<string, number>> = {};
    const tell = (name: string, off: readonly number[]) => {
      table[name] = { pairs: off.length, least: off[0]!, median: off[off.length >> 1]!, most: off.at(-1)! };
    };
    for (const quantisation of ['q8', 'q4'] as const) {
      const own = plain[quantisation];
      const exact = apart(own, await vectorsOf(quantisation, OTHER_ORDER));
      const fast = apart(own, await vectorsOf(quantisation, DOTS));
      tell(`${quantisation}, sums in two orders`, exact);
      tell(`${quantisation}, and 8-bit products`, fast);
      expect(exact.at(-1)).toBeGreaterThan(0);
      expect(4 * exact.at(-1)!).toBeLessThan(vectorToleranceOf('exact', 'exact'));
      expect(4 * fast.at(-1)!).toBeLessThan(vectorToleranceOf('exact', 'fast'));
    }
    tell('q8, and q4', apart(plain.q8, plain.q4));
    tell(
      'two texts',
      texts.sort((a, b) => a - b),
    );
    console.table(table);
    expect(texts[0]).toBeGreaterThan(vectorToleranceOf('fast', 'fast'));
  }, 600_000);
});
