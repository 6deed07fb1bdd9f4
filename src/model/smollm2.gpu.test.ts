import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { openGguf } from '../checkpoint/open-gguf.ts';
import { testDevice } from '../testing/device.ts';
import chat from '../testing/golden/smollm2/chat.json';
import perplexity from '../testing/golden/smollm2/perplexity.json';
import { readTestFile } from '../testing/read-file.ts';
import type { GpuRunner } from './gpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import { blocksFor, generate, logitsRow } from './testing/generate.ts';

// Fetched by `npm run model:smollm2`; without it there is nothing to test.
const file = await readTestFile(`models/smollm2/${chat.source}`).catch(() => undefined);
const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

describe.skipIf(file === undefined)('SmolLM2-135M-Instruct Q4_1', () => {
  let runner: GpuRunner;
  beforeAll(async () => {
    const { checkpoint, config } = await openGguf(bytesSource(chat.source, file!));
    runner = await loadDecoder(await testDevice(), checkpoint, config, {
      kvBlocks: 66,
      maxRows: 128,
      maxSequences: 1,
      contextLength: 1_056,
    });
  }, 120_000);
  afterAll(() => runner?.destroy());

  test.each(long ? chat.cases : chat.cases.slice(0, 1))(
    'answers $text',
    async (golden) => {
      const count = golden.close_steps[0] ?? golden.greedy.length;
      const rows = await generate(runner, golden.ids, long ? count : Math.min(count, 12));
      expect(rows.map((row) => row.id)).toEqual(golden.greedy.slice(0, rows.length));
    },
    300_000,
  );

  test('perplexity is the reference to 0.5 %', async () => {
    const ids = perplexity.ids.slice(0, long ? perplexity.ids.length : 128);
    const blockTable = blocksFor(ids.length);
    const losses: number[] = [];
    for (let from = 0; from < ids.length; from += 128) {
      const tokens = ids.slice(from, from + 128);
      const scored = tokens.flatMap((_, row) => {
        const next = ids[from + row + 1];
        return next === undefined ? [] : [logitsRow(row, 0, { scored: next, logprob: true })];
      });
      const rows = await runner.step({
        sequences: [{ slot: 0, tokens, startPosition: from, blockTable }],
        logits: scored,
      });
      losses.push(...rows.map((row) => -row.logprob!));
    }
    const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const expected = mean(perplexity.nll.slice(0, losses.length));
    expect(Math.abs(Math.exp(mean(losses) - expected) - 1)).toBeLessThan(5e-3);
  }, 600_000);
});
