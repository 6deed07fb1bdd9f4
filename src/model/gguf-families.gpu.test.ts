import { expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { openGguf } from '../checkpoint/open-gguf.ts';
import { type GgufConversion, writeGgufModel } from '../checkpoint/testing/write-gguf-model.ts';
import { testDevice } from '../testing/device.ts';
import { loadDecoder } from './load-decoder.ts';
import { blocksFor, logitsRow } from './testing/generate.ts';
import { goldenDecoder } from './testing/golden-decoder.ts';
import { largestDifference } from './testing/golden-encoders.ts';

/** Each compiles kernels of its own, which takes a software adapter a while. */
const LONG = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

/** What only these files have: matrices the other way round, experts in stacks with rows in interleaved order, fused matrices. */
const MODELS: readonly (readonly [string, GgufConversion])[] = [
  ['gpt2', { architecture: 'gpt2' }],
  [
    'mixtral',
    { architecture: 'llama', permuted: true, stacked: true, metadata: { expert_count: 4, expert_used_count: 2 } },
  ],
  ['phi3', { architecture: 'phi3', metadata: { 'rope.dimension_count': 12, 'attention.sliding_window': 16 } }],
];

test.each(LONG ? MODELS : MODELS.slice(0, 1))('%s as GGUF agrees with the reference', async (name, how) => {
  const model = await goldenDecoder(name);
  const file = await writeGgufModel(model.checkpoint, model.config.raw, how);
  const { checkpoint, config } = await openGguf(bytesSource(`${name}.gguf`, file));
  const runner = await loadDecoder(await testDevice(), checkpoint, config, {
    ...{ kvBlocks: 4, maxRows: 48, maxSequences: 1 },
  });
  try {
    const tokens = [...model.ids[0]!];
    const blockTable = blocksFor(tokens.length);
    const moreTables = runner.limits.kvGroups.slice(1).map(() => blockTable);
    const rows = await runner.logits({
      sequences: [{ slot: 0, tokens, startPosition: 0, blockTable, moreTables }],
      logits: tokens.map((_, row) => logitsRow(row, 0)),
    });
    rows.forEach((row, i) => {
      const expected = model.logits.subarray(i * config.vocabSize, (i + 1) * config.vocabSize);
      expect(largestDifference(row, expected), `position ${i}`).toBeLessThan(2e-3);
    });
  } finally {
    runner.destroy();
  }
});
