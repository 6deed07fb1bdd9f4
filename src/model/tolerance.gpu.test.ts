import { describe, expect, test } from 'vitest';
import { defaultChoices } from '../gpu/kernel-choices.ts';
import { candidates } from '../gpu/linear-candidates.ts';
import type { LinearChoice } from '../gpu/linear-choice.ts';
import { type PrecisionName, toleranceOf } from '../relay/audit/tolerance.ts';
import { testDevice } from '../testing/device.ts';
import { loadDecoder } from './load-decoder.ts';
import type { SampledRow } from './runner.ts';
import { blocksFor, GREEDY, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';
const ROWS = 64;
const SEQUENCES = 4;

/** What a GPU with every feature may have; here with stand-ins for halves. */
const FEATURES = { has: () => true, packedDot: true, software: false, fragments: [] } as const;

/** Kernels of honest nodes, which sum in other orders, or other products. Halves are stood in for by floats, which round nothing. */
const NODES: readonly (readonly [name: string, precision: PrecisionName, is: (choice: LinearChoice) => boolean])[] = [
  ['threads along K', 'exact', ({ matvec, splits }) => isAll(matvec, 'plain') && splits > 1],
  ['a thread walks K', 'exact', ({ splits }) => splits === 1],
  ['8-bit products', 'fast', ({ matvec }) => isAll(matvec, 'dot')],
  ['halves', 'fast', ({ matvec }) => isAll(matvec, 'f16')],
];

const isAll = (matvec: LinearChoice['matvec'], path: string) => matvec.every((one) => one.path === path);

// SwiftShader takes minutes to compile what is made for GPUs.
describe.runIf(LONG)('the tolerances of audits', () => {
  test('are twice what lies between honest nodes, and more', async () => {
    const device = await testDevice();
    const checkpoint = await storiesCheckpoint();
    const defaults = defaultChoices(device);
    const score = async (
      is: (choice: LinearChoice) => boolean,
      texts?: number[][],
    ): Promise<{ rows: SampledRow[]; texts: number[][] }> => {
      const runner = await loadDecoder(device, checkpoint, storiesConfig(), {
        ...{ kvBlocks: 32, maxRows: 64, maxSequences: SEQUENCES, quantisation: 'q8' as const },
        choices: {
          ...defaults,
          // Norms' weights and the like are no quants, and have no 8-bit products.
          linear: (part, form) => candidates(part, form, FEATURES, 'fast').find(is) ?? defaults.linear(part, form),
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
    const [[, , first]] = NODES as [(typeof NODES)[number]];
    const made = await score(first);
    const scored = [made.rows];
    for (const [, , is] of NODES.slice(1)) scored.push((await score(is, made.texts)).rows);

    const table: Record<string, Record<string, number>> = {};
    for (const [at, [one, precision]] of NODES.entries()) {
      for (const [other, otherPrecision] of NODES.slice(at + 1)) {
        const off = distances(scored[at]!, scored[NODES.findIndex(([name]) => name === other)]!);
        const part = (share: number) => Number(off[Math.floor(share * (off.length - 1))]!.toExponential(1));
        const tolerance = toleranceOf(precision, otherPrecision);
        const counts = { logprobs: off.length, p50: part(0.5), 'p99.9': part(0.999), most: part(1), tolerance };
        table[`${one} (${precision}), ${other} (${otherPrecision})`] = counts;
        expect(2 * off.at(-1)!).toBeLessThan(tolerance);
      }
    }
    console.table(table);
    // They do differ.
    for (const { most } of Object.values(table)) expect(most).toBeGreaterThan(0);
  }, 900_000);
});

/** Of the logprobs of ids that both tell, the least first. */
function distances(some: readonly SampledRow[], others: readonly SampledRow[]): number[] {
  const off = some.flatMap(({ top }, at) => {
    const told = others[at]!.top!;
    const other = new Map(Array.from(told.ids, (id, rank) => [id, told.logprobs[rank]!]));
    return Array.from(top!.ids, (id, rank) => [id, top!.logprobs[rank]!] as const)
      .filter(([id]) => other.has(id))
      .map(([id, logprob]) => Math.abs(other.get(id)! - logprob));
  });
  return off.sort((a, b) => a - b);
}
