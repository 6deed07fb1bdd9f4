import { describe, expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { openGguf } from '../checkpoint/open-gguf.ts';
import { openSafetensors } from '../checkpoint/safetensors.ts';
import { testDevice } from '../testing/device.ts';
import golden from '../testing/golden/gguf/stories260K.json';
import { readTestFile } from '../testing/read-file.ts';
import { CpuRunner } from './cpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { Runner } from './runner.ts';
import { blocksFor, generate, logitsRow } from './testing/generate.ts';

const LIMITS = { kvBlocks: 16, maxRows: 32, maxSequences: 1 };

describe.each(Object.keys(golden.files) as (keyof typeof golden.files)[])('%s.gguf', (name) => {
  const { cases } = golden.files[name];

  async function open() {
    const file = await readTestFile(`src/testing/golden/gguf/${name}.gguf`);
    return openGguf(bytesSource(`${name}.gguf`, file));
  }

  /** [positions, vocabulary] of case `index`. */
  async function goldenLogits(index: number): Promise<Float32Array> {
    const file = await readTestFile(`src/testing/golden/gguf/${name}.logits.safetensors`);
    const checkpoint = await openSafetensors(bytesSource(`${name}.logits.safetensors`, file));
    const bytes = (await checkpoint.read(checkpoint.tensors.get(`logits_${index}`)!)).slice();
    return new Float32Array(bytes.buffer);
  }

  async function check(runner: Runner & { logits(batch: unknown): Promise<Float32Array[]> }, greedy: number) {
    for (const [index, { ids, greedy: path }] of cases.entries()) {
      const logits = await runner.logits({
        sequences: [{ slot: 0, tokens: ids, startPosition: 0, blockTable: blocksFor(ids.length) }],
        logits: ids.map((_, row) => logitsRow(row, 0)),
      });
      const expected = await goldenLogits(index);
      const actual = Float32Array.from(logits.flatMap((row) => [...row]));
      expect(actual.length).toBe(expected.length);
      const error = Math.max(...actual.map((logit, i) => Math.abs(logit - expected[i]!)));
      expect(error).toBeLessThan(golden.tolerance);
      const rows = await generate(runner, ids, Math.min(greedy, path.length));
      expect(rows.map((row) => row.id)).toEqual(path.slice(0, greedy));
    }
  }

  test('the GPU gives the golden logits at every position, and the golden ids', async () => {
    const { checkpoint, config } = await open();
    const runner = await loadDecoder(await testDevice(), checkpoint, config, LIMITS);
    await check(runner as never, Number.POSITIVE_INFINITY);
    runner.destroy();
  });

  test('the CPU does, too', async () => {
    const { checkpoint, config } = await open();
    await check((await CpuRunner.load(checkpoint, config, LIMITS)) as never, 3);
  });
});
