import type { LogitsEntry } from '../pack-step.ts';
import { RESULT_WORDS, Sampler } from '../sampler.ts';
import { readTop } from '../top-logprobs.ts';
import { GREEDY_ENTRY, type KernelBench } from './kernel-bench.ts';

/** Rows of a tile of sampleRows. */
export const SAMPLE_TILE = 8;

/** What a sampler gives for a row. */
export interface Drawn {
  readonly id: number;
  readonly nonFinite: boolean;
  readonly logprob: number;
  readonly top: { readonly id: number; readonly logprob: number }[];
}

/** Runs entries over logits; entry i takes row i modulo the number of rows, of which there are at most 8. */
export async function sampleRows(
  bench: KernelBench,
  rows: readonly Float32Array[],
  entries: readonly Partial<LogitsEntry>[],
  lastIds?: GPUBuffer,
): Promise<Drawn[]> {
  const vocabulary = rows[0]!.length;
  const scratch = new Float32Array(SAMPLE_TILE * vocabulary);
  for (let i = 0; i < SAMPLE_TILE; i++) scratch.set(rows[i % rows.length]!, i * vocabulary);
  let topAt = 0;
  const packed = entries.map((entry) => {
    const whole = { ...GREEDY_ENTRY, ...entry, topAt };
    topAt += whole.top;
    return whole;
  });
  const one = { slot: 0, tokens: Uint32Array.of(0), startPosition: 0, blockTable: [0] };
  const { buffer: step } = await bench.step([one], packed);
  const sampler = await Sampler.create(
    bench.gpu,
    {
      vocabulary,
      tileRows: SAMPLE_TILE,
      maxLogitsRows: entries.length,
      maxTop: Math.max(1, topAt),
      maxIds: 1,
      maxLogprobIds: 1,
    },
    {
      step,
      logits: await bench.buffer(scratch),
      lastIds: lastIds ?? (await bench.zeros(64)),
      slotIds: await bench.zeros(128),
    },
  );
  await bench.run((pass) => {
    for (let tile = 0; tile * SAMPLE_TILE < entries.length; tile++) {
      const some = packed.slice(tile * SAMPLE_TILE, (tile + 1) * SAMPLE_TILE);
      sampler.encode(pass, tile, some);
    }
  });
  const words = await bench.readWords(sampler.results, entries.length * RESULT_WORDS);
  const top = await bench.readWords(sampler.top, 2 * Math.max(1, topAt));
  const floats = new Float32Array(words.buffer);
  for (const buffer of [sampler.results, sampler.top]) bench.gpu.buffers.free(buffer);
  return packed.map(
    (entry, i): Drawn => ({
      id: words[i * RESULT_WORDS]!,
      nonFinite: words[i * RESULT_WORDS + 1] === 1,
      logprob: floats[i * RESULT_WORDS + 2]!,
      top: topOf(readTop(top, entry.topAt, entry.top)),
    }),
  );
}

function topOf({ ids, logprobs }: ReturnType<typeof readTop>): Drawn['top'] {
  return [...ids].map((id, i) => ({ id, logprob: logprobs[i]! }));
}
