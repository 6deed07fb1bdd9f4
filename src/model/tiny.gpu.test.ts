import { describe, expect, test } from 'vitest';
import { bits } from '../gpu/testing/kernel-bench.ts';
import { testDevice } from '../testing/device.ts';
import type { GpuRunner } from './gpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { StepSequence } from './runner.ts';
import { blocksFor, generate, logitsRow } from './testing/generate.ts';
import { goldenDecoder } from './testing/golden-decoder.ts';
import { largestDifference } from './testing/golden-encoders.ts';

/** Chunks of every size take a while on a software adapter. */
const LONG = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

const NAMES = [
  ...['llama', 'llama3-rope', 'mistral', 'qwen2', 'qwen2-yarn', 'qwen3', 'gemma2', 'gemma3', 'gemma3-newconfig'],
  ...['phi3', 'gpt2', 'smollm3', 'olmo2', 'granite', 'qwen3-moe', 'mixtral'],
] as const;
/** Those that differ most in what they are made of. */
const CHUNKED = new Set<string>(['gemma2', 'gpt2', 'olmo2', 'qwen3', 'phi3', 'qwen3-moe']);

const TOLERANCE = 2e-3;
const LENGTH = 48;
const PROMPT = 20;

/** A step's rows: of sequence 0 or 1, positions [from, to). */
type Part = readonly [sequence: 0 | 1, from: number, to: number];

/** Each step prefills, or goes on with, either or both of the sequences. */
const SCHEDULES: Readonly<Record<string, readonly (readonly Part[])[]>> = {
  'both in odd chunks': [
    [
      [0, 0, 7],
      [1, 0, 1],
    ],
    [
      [1, 1, 18],
      [0, 7, 20],
    ],
    [
      [0, 20, 21],
      [1, 18, 41],
    ],
    [
      [0, 21, 48],
      [1, 41, 48],
    ],
  ],
  'one token after another, beside a prompt in chunks': Array.from({ length: LENGTH }, (_, i): Part[] => [
    [0, i, i + 1],
    ...(i % 12 === 5 ? [[1, i - 5, i + 7] as const] : []),
  ]),
};

/** Logits of every position of both sequences, [2][LENGTH], computed step by step. */
async function run(runner: GpuRunner, ids: readonly Uint32Array[], steps: readonly (readonly Part[])[]) {
  const results: Float32Array<ArrayBuffer>[][] = [[], []];
  const blocks = blocksFor(LENGTH).length;
  const more = runner.limits.kvGroups.length - 1;
  for (const parts of steps) {
    const sequences = parts.map(([sequence, from, to]): StepSequence => {
      const blockTable = blocksFor(LENGTH, sequence * blocks);
      return {
        slot: sequence,
        tokens: ids[sequence]!.subarray(from, to),
        startPosition: from,
        blockTable,
        moreTables: Array.from({ length: more }, () => blockTable),
      };
    });
    let row = 0;
    const rows = parts.flatMap(([sequence, from, to]) =>
      Array.from({ length: to - from }, () => logitsRow(row++, sequence)),
    );
    const logits = await runner.logits({ sequences, logits: rows });
    let at = 0;
    for (const [sequence, from, to] of parts) {
      for (let position = from; position < to; position++) results[sequence]![position] = logits[at++]!;
    }
  }
  return results;
}

describe.each(NAMES)('%s', (name) => {
  test('agrees with the reference at every position, in every company', async () => {
    const model = await goldenDecoder(name);
    const runner = await loadDecoder(await testDevice(), model.checkpoint, model.config, {
      ...{ kvBlocks: 8, maxRows: 2 * LENGTH, maxSequences: 2 },
    });
    try {
      const whole = await run(runner, model.ids, [
        [
          [0, 0, LENGTH],
          [1, 0, LENGTH],
        ],
      ]);
      const vocabulary = model.config.vocabSize;
      whole.flat().forEach((row, i) => {
        const expected = model.logits.subarray(i * vocabulary, (i + 1) * vocabulary);
        expect(largestDifference(row, expected), `position ${i}`).toBeLessThan(TOLERANCE);
      });
      if (LONG || CHUNKED.has(name)) {
        for (const [schedule, steps] of Object.entries(SCHEDULES)) {
          const some = await run(runner, model.ids, steps);
          expect(
            some.map((rows) => rows.map(bits)),
            schedule,
          ).toEqual(whole.map((rows) => rows.map(bits)));
        }
      }
      for (const sequence of LONG ? ([0, 1] as const) : ([0] as const)) {
        const drawn = await generate(
          runner,
          [...model.ids[sequence]!.subarray(0, PROMPT)],
          model.greedy[sequence]!.length,
        );
        expect(drawn.map(({ id }) => id)).toEqual([...model.greedy[sequence]!]);
      }
    } finally {
      runner.destroy();
    }
  });
});
