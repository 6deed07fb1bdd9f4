import { describe, expect, test } from 'vitest';
import { defaultChoices } from '../gpu/kernel-choices.ts';
import { candidates } from '../gpu/linear-candidates.ts';
import type { LinearPath } from '../gpu/linear-variant.ts';
import { AUDIT_TOLERANCE } from '../relay/audit/tolerance.ts';
import { testDevice } from '../testing/device.ts';
import { loadLlama } from './load-llama.ts';
import type { SampledRow } from './runner.ts';
import { blocksFor, GREEDY, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';
const ROWS = 64;
const SEQUENCES = 4;

/** What a GPU with every feature may have; here with stand-ins for halves. */
const FEATURES = { has: () => true, packedDot: true, software: false, fragments: [] } as const;

// SwiftShader takes a minute to compile what is made for GPUs.
describe.runIf(LONG)('the tolerance of audits', () => {
  test('is more than lies between exact and 8-bit products', async () => {
    const device = await testDevice();
    const checkpoint = await storiesCheckpoint();
    const defaults = defaultChoices(device);
    const score = async (path: LinearPath, texts?: number[][]): Promise<{ rows: SampledRow[]; texts: number[][] }> => {
      const runner = await loadLlama(device, checkpoint, storiesConfig(), {
        ...{ kvBlocks: 32, maxRows: 64, maxSequences: SEQUENCES, quantisation: 'q8' as const },
        choices: {
          ...defaults,
          linear: (part, form) =>
            candidates(part, form, FEATURES, 'fast').find(({ matvec }) => matvec.every((one) => one.path === path)) ??
            defaults.linear(part, form),
        },
      });
      const rows: SampledRow[] = [];
      const made: number[][] = [];
      for (let slot = 0; slot < SEQUENCES; slot++) {
        const blockTable = blocksFor(ROWS, slot * (ROWS / 16));
        const ids = texts?.[slot] ?? [1];
        for (let at = 0; at < ROWS; at++) {
          const sampling = { ...GREEDY, temperature: 1, seed: BigInt(slot) };
          const drawn = { ...logitsRow(0, slot, { sampling }), outputPosition: at };
          const scored = logitsRow(0, slot, { logprob: true, topLogprobs: 20, scored: ids[at + 1] ?? 0 });
          const step = async (row: typeof drawn) =>
            (
              await runner.step({
                sequences: [{ slot, tokens: [ids[at]!], startPosition: at, blockTable }],
                logits: [row],
              })
            )[0]!;
          if (!texts) ids.push((await step(drawn)).id);
          rows.push(await step(scored));
        }
        made.push(ids);
      }
      runner.destroy();
      return { rows, texts: made };
    };
    const exact = await score('plain');
    // The coarsest there is. Halves are stood in for by floats here, which round nothing.
    const { rows } = await score('dot', exact.texts);
    const off = rows.flatMap(({ top }, at) => {
      const other = new Map(Array.from(top!.ids, (id, rank) => [id, top!.logprobs[rank]!]));
      const own = exact.rows[at]!.top!;
      return Array.from(own.ids, (id, rank) => Math.abs((other.get(id) ?? own.logprobs[rank]!) - own.logprobs[rank]!));
    });
    off.sort((a, b) => a - b);
    const at = (part: number) => off[Math.floor(part * (off.length - 1))]!.toExponential(1);
    console.log(`${off.length} logprobs: p50 ${at(0.5)}, p99 ${at(0.99)}, p99.9 ${at(0.999)}, most ${at(1)}`);
    expect(off.at(-1)!).toBeGreaterThan(0);
    expect(off.at(-1)!).toBeLessThan(AUDIT_TOLERANCE);
  }, 500_000);
});
