import { encoderOf } from '../../src/model/encoders.ts';
import { loadEncoder } from '../../src/model/load-encoder.ts';
import { randomEncoder } from '../../src/model/testing/random-encoder.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median } from './stats.ts';

/** Sequences, and ids of each. */
const CASES = [
  [1, 16],
  [1, 128],
  [32, 16],
  [32, 128],
] as const;
/** In the last one's place on a software adapter, which would take a minute. */
const SOFTWARE_CASES = [...CASES.slice(0, 3), [8, 128]] as const;
/** all-MiniLM-L6-v2's, but for the vocabulary, of which a step reads no more than its ids. */
const SHAPE = { layers: 6, heads: 12, headSize: 32, intermediateSize: 1536, vocabSize: 2048, positions: 512 } as const;
/** Steps of more multiply-adds are measured once on a software adapter: they take seconds. */
const LONG_FLOPS = 10e9;

/** Sequences and ids a second of an encoder (runner; MiniLM's layers, random weights). */
export async function embedTable({ device, request, roofline, random, software }: Setting): Promise<BenchTable> {
  const { config, checkpoint } = randomEncoder(1, SHAPE);
  const { layers, hiddenSize, intermediateSize } = encoderOf(config).readConfig(config);
  const { batches } = request.only ?? {};
  const cases = (software ? SOFTWARE_CASES : CASES).filter(([batch]) => batches?.includes(batch!) ?? true);
  const runner = await loadEncoder(device, checkpoint, config, {
    ...{ pooling: 'mean', normalised: true, scratchBytes: 1 << 28 },
    ...{ maxRows: 4096, maxSequences: 32 },
  });
  const table: BenchRow[] = [];
  try {
    for (const [batch, length] of cases as readonly (readonly [number, number])[]) {
      const sequences = Array.from({ length: batch }, () => ({
        ids: Uint32Array.from({ length }, () => random.integer(0, SHAPE.vocabSize - 1)),
      }));
      const tokens = batch * length;
      const weights = layers * (4 * hiddenSize * hiddenSize + 2 * hiddenSize * intermediateSize);
      const flops = 2 * tokens * weights + 4 * layers * hiddenSize * length * tokens;
      // Weights are read once, and all there is goes through memory many times less than it is multiplied.
      const leastMs = Math.max(flops / roofline.gflops, (4 * weights) / roofline.copyGBs) / 1e6;
      const once = software && flops > LONG_FLOPS;
      const times: number[] = [];
      for (let round = once ? 0 : -1; round < (once ? 1 : request.quick ? 3 : 5); round++) {
        const start = performance.now();
        await runner.embed(sequences);
        if (once || round >= 0) times.push(performance.now() - start);
      }
      const ms = median(times);
      const perSecond = 1000 / ms;
      const share = leastMs / ms;
      table.push({
        cells: [
          ...[String(batch), String(length), fixed(ms, 1), fixed(batch * perSecond, 1)],
          ...[fixed(tokens * perSecond, 0), percent(share)],
        ],
        ...{ holds: undefined, bar: '' },
        data: {
          batch,
          length,
          ms,
          sequencesPerSecond: batch * perSecond,
          tokensPerSecond: tokens * perSecond,
          share,
        },
      });
    }
  } finally {
    runner.destroy();
  }
  return {
    name: 'embed',
    title: "Encoder steps (runner; all-MiniLM-L6-v2's layers, random f32 weights)",
    columns: ['sequences', 'ids each', 'ms', 'sequences/s', 'ids/s', 'of roofline'],
    rows: table,
  };
}
