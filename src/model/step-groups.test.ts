import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stepWords } from '../gpu/pack-step.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import { stepCapacity } from './kv-layout.ts';
import { NO_BLOCK, type RunnerLimits, type StepBatch } from './runner.ts';
import { PLAIN_SLOT } from './slot-traits.ts';
import { encodeStep, MAX_REPEAT } from './step-metadata.ts';
import { logitsRow } from './testing/generate.ts';

/** A group that sees all, one of a window of 40 and one of 9. */
const LIMITS: RunnerLimits = {
  maxRows: 64,
  maxSequences: 4,
  maxLogitsRows: 4,
  maxTopLogprobs: 0,
  maxTop: 0,
  maxBiases: 0,
  maxLogprobIds: 0,
  maxHiddenRows: 0,
  hiddenSize: 4,
  contextLength: 400,
  vocabSize: 100,
  kvGroups: [{ blocks: 30 }, { blocks: 20, window: 40 }, { blocks: 10, window: 9 }],
};
const slots = new Array(4).fill(PLAIN_SLOT);
const encode = (batch: StepBatch, into = new Uint32Array(4096)) =>
  encodeStep(into, batch, { limits: LIMITS, splitItems: 100 }, slots);

const full = [9, 8, 7, 6, 5, 4, 3];
/** Rows of positions 96 … 99: the windows see from 57 and from 88 on. */
const sequence = {
  slot: 0,
  tokens: [1, 2, 3, 4],
  startPosition: 96,
  blockTable: full,
  moreTables: [
    [NO_BLOCK, NO_BLOCK, NO_BLOCK, 13, 14, 15, 16],
    [NO_BLOCK, NO_BLOCK, NO_BLOCK, NO_BLOCK, NO_BLOCK, 5, 6],
  ],
};

describe('a step over several KV groups', () => {
  it('has a table of each group, of what its window sees', () => {
    const { words } = encode({ sequences: [sequence], logits: [] });
    const at = words[STEP_HEADER.sequencesAt]! + 4;
    const entry = (group: number, block: number) => words[(words[at + group]! + block) >>> 0];
    expect(full.map((_, block) => entry(0, block))).toEqual(full);
    expect([3, 4, 5, 6].map((block) => entry(1, block))).toEqual([13, 14, 15, 16]);
    expect([5, 6].map((block) => entry(2, block))).toEqual([5, 6]);
    expect(words.length - words[at]!).toBe(7 + 4 + 2);
  });

  it('is refused without a table for each, or with one that lacks what a row sees', () => {
    const with_ = (moreTables: readonly (readonly number[])[]) => () =>
      encode({ sequences: [{ ...sequence, moreTables }], logits: [] });
    const [second, third] = sequence.moreTables as [number[], number[]];
    expect(with_([second])).toThrow('sequence 0: 2 block tables, of 3 KV groups');
    expect(with_([second.with(3, NO_BLOCK), third])).toThrow('block -1 is not below 20 of KV group 1');
    expect(with_([second.with(2, -2), third])).toThrow('block -2 is not below 20');
    expect(with_([second, third.with(6, 10)])).toThrow('block 10 is not below 10 of KV group 2');
    expect(with_([second, third.slice(0, 6)])).toThrow('6 blocks in its table of KV group 2, 7 needed');
    expect(with_([second.map((_, i) => i), third])).not.toThrow();
    expect(() => encode({ sequences: [{ ...sequence, blockTable: full.with(0, NO_BLOCK) }], logits: [] })).toThrow(
      'block -1 is not below 30',
    );
  });

  it('copies a block of each, group by group', () => {
    const copies = [
      {
        from: 1,
        to: 2,
        more: [
          { from: 3, to: 4 },
          { from: 5, to: 6 },
        ],
      },
      {
        from: 7,
        to: 8,
        more: [
          { from: 3, to: 9 },
          { from: 5, to: 7 },
        ],
      },
    ];
    const { words, copies: count } = encode({ sequences: [sequence], logits: [], copies });
    const at = words[STEP_HEADER.copiesAt]!;
    expect(count).toBe(2);
    expect([...words.subarray(at, at + 12)]).toEqual([1, 2, 7, 8, 3, 4, 3, 9, 5, 6, 5, 7]);
    const refused = (copy: (typeof copies)[number] | { from: number; to: number }) => () =>
      encode({ sequences: [sequence], logits: [], copies: [copy] });
    expect(refused({ from: 1, to: 2 })).toThrow('copy 0: 1 blocks, of 3 KV groups');
    expect(
      refused({
        ...copies[0]!,
        more: [
          { from: 3, to: 20 },
          { from: 5, to: 6 },
        ],
      }),
    ).toThrow('both below 20');
    expect(
      refused({
        ...copies[0]!,
        more: [
          { from: 3, to: 3 },
          { from: 5, to: 6 },
        ],
      }),
    ).toThrow('source and a target');
  });

  it('fits what the limits say it may take', () => {
    const most = stepWords({ ...stepCapacity(LIMITS), splitItems: 100 });
    const any = fc.record({ at: fc.nat(380), rows: fc.integer({ min: 1, max: 16 }) });
    fc.assert(
      fc.property(fc.array(any, { minLength: 1, maxLength: 4 }), fc.boolean(), (some, repeats) => {
        const sequences = some.map(({ at, rows }, slot) => {
          const startPosition = Math.min(at, 400 - 32);
          const table = Array.from({ length: 26 }, (_, i) => i % 10);
          const tokens = repeats ? ('slot' as const) : new Uint32Array(rows);
          return { slot, tokens, startPosition, blockTable: table, moreTables: [table, table] };
        });
        const logits = repeats ? sequences.map(({ slot }) => logitsRow(slot, slot)) : [];
        const { words } = encode({ sequences, logits, repeat: repeats ? MAX_REPEAT : 1 }, new Uint32Array(most));
        expect(words.length).toBeLessThanOrEqual(most);
      }),
    );
  });
});
