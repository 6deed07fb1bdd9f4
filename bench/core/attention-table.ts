import { Attention, splitItemBytes } from '../../src/gpu/attention.ts';
import { Gpu } from '../../src/gpu/gpu.ts';
import { packStep } from '../../src/gpu/pack-step.ts';
import { SPLIT_KEYS } from '../../src/gpu/step-layout.ts';
import { BLOCK_TOKENS } from '../../src/model/runner.ts';
import { contexts, difference, neighbourBar } from './neighbours.ts';
import { type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median } from './stats.ts';
import { kernelTimes } from './timing.ts';

const MOST_CONTEXT = 8_192;
/** Around every power of two, where engines have cliffs. */
const QUICK = [64, 128, 192, 256, 512, 576, 1_024, 1_088, 2_048, 2_112, 4_096, 4_160, 8_128, 8_192];

/**
 * The attention kernels alone, one decode row, to a context of 8,192. Their time is proportional to the keys, so that
 * neighbours differ by 100 % at 64 and 128: what may not differ by over 15 % is the time a key.
 */
export async function attentionTable({ device, model, roofline, request }: Setting): Promise<BenchTable> {
  const { heads, kvHeads, headSize, layers } = model.llama;
  const gpu = new Gpu(device);
  try {
    const blocks = MOST_CONTEXT / BLOCK_TOKENS;
    const splits = MOST_CONTEXT / SPLIT_KEYS;
    const words = new Uint32Array(1 << 14);
    const shape = { heads, kvHeads, headSize, kvFormat: 'f32' } as const;
    const step = await gpu.storage('bench step', words.byteLength);
    const attention = await Attention.create(gpu, shape, {
      step,
      query: await gpu.storage('bench query', heads * headSize * 4),
      kv: await gpu.storage('bench kv', blocks * BLOCK_TOKENS * 2 * kvHeads * headSize * 4),
      parts: await gpu.storage('bench parts', splits * splitItemBytes(shape)),
      output: await gpu.storage('bench output', heads * headSize * 4),
    });
    const blockTable = Array.from({ length: blocks }, (_, i) => i);
    const lengths = request.quick ? QUICK : contexts(MOST_CONTEXT);
    const times = new Map<number, number[]>(lengths.map((length) => [length, []]));
    // Round after round, so that whoever disturbs this machine disturbs all lengths alike.
    for (let round = 0; round < (request.quick ? 3 : 7); round++) {
      for (const length of lengths) {
        const packed = packStep(words, [{ slot: 0, tokens: [5], startPosition: length - 1, blockTable }], [], splits);
        device.queue.writeBuffer(step, 0, packed.words);
        times
          .get(length)!
          .push(...(await kernelTimes(device, (pass) => attention.encode(pass, packed.work), 1)).samples);
      }
    }
    return {
      name: 'attention',
      title: `Attention of one decode row in one layer of ${layers} (kernels alone, median; judged: the time, or a key's)`,
      columns: ['context', 'µs', 'µs a key', 'to neighbour', 'a key', 'of roofline'],
      rows: lengths.map((length, i) => {
        const before = lengths[i - 1];
        const near = before !== undefined && length - before === 64;
        const apart = (of: (length: number) => number) => (near ? difference(of(before), of(length)) : undefined);
        const typical = (at: number) => median(times.get(at)!);
        const best = (at: number) => Math.min(...times.get(at)!);
        const whole = apart(typical);
        const perKey = apart((at) => typical(at) / at);
        const ms = typical(length);
        const bytes = (8 * kvHeads * headSize * length) / roofline.copyGBs;
        const share = Math.max(bytes, (4 * heads * headSize * length) / roofline.gflops) / 1e6 / ms;
        return {
          cells: [
            String(length),
            fixed(1_000 * ms, 1),
            fixed((1_000 * ms) / length, 3),
            whole === undefined ? '–' : percent(whole),
            perKey === undefined ? '–' : percent(perKey),
            percent(share),
          ],
          ...neighbourBar(
            least(whole, perKey),
            least(
              apart(best),
              apart((at) => best(at) / at),
            ),
          ),
          data: { context: length, ms, best: best(length), apart: whole, perKey, share },
        };
      }),
    };
  } finally {
    gpu.destroy();
  }
}

function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : Math.min(a, b);
}
