import { describe, expect, test } from 'vitest';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { LogitsRow, RunnerLimits, StepBatch, StepSequence } from './runner.ts';
import { PLAIN_SLOT, type SlotTraits } from './slot-traits.ts';
import { encodeStep } from './step-metadata.ts';
import { GREEDY, logitsRow } from './testing/generate.ts';

const LIMITS: RunnerLimits = {
  maxRows: 64,
  maxSequences: 4,
  maxLogitsRows: 4,
  maxTopLogprobs: 5,
  maxTop: 8,
  maxBiases: 3,
  maxLogprobIds: 3,
  maxHiddenRows: 1,
  hiddenSize: 4,
  contextLength: 400,
  vocabSize: 100,
  blocks: 30,
};

const table = (count: number, first = 0) => Array.from({ length: count }, (_, i) => first + i);
const encode = (batch: StepBatch, slots: readonly SlotTraits[] = new Array(4).fill(PLAIN_SLOT)) =>
  encodeStep(new Uint32Array(4096), batch, { limits: LIMITS, splitItems: 100 }, slots);

test('lays rows, sequences, logits, splits and tables out as shaders/step.wgsl says', () => {
  const { words, rows, work, top } = encode({
    sequences: [
      { slot: 2, tokens: [7, 8, 9], startPosition: 15, blockTable: [5, 6, 29] },
      { slot: 0, tokens: 'slot', startPosition: 130, blockTable: table(9, 10) },
    ],
    logits: [
      logitsRow(2, 2, { topLogprobs: 3, outputPosition: 4 }),
      logitsRow(3, 0, {
        logprob: true,
        topLogprobs: 2,
        sampling: { temperature: 0.5, topK: 3, topP: 0.25, minP: 0.125, seed: 0x1_0000_0002n, sampleIndex: 9 },
      }),
    ],
  });
  expect([rows, top]).toEqual([4, 5]);
  expect(work).toEqual({ wholeRows: 3, splitRows: 1, splitItems: 3 });
  const at = (key: keyof typeof STEP_HEADER) => words[STEP_HEADER[key]]!;
  expect([at('rows'), at('sequences'), at('logits')]).toEqual([4, 2, 2]);
  expect([at('splitItems'), at('splitRows'), at('wholeRows')]).toEqual([3, 1, 3]);
  const part = (from: number, count: number) => [...words.slice(from, from + count)];
  expect(part(at('rowsAt'), 16)).toEqual([0, 15, 7, 0, 0, 16, 8, 0, 0, 17, 9, 0, 1, 130, 0, 1]);
  const tables = at('wholeRowsAt') + 3;
  expect(part(at('sequencesAt'), 5)).toEqual([2, 0, 3, 18, tables]);
  expect(part(at('sequencesAt') + 8, 5)).toEqual([0, 3, 1, 131, tables + 2]);
  // Only the blocks in use: the third of the first table isn't.
  expect([...words.slice(tables)]).toEqual([5, 6, ...table(9, 10)]);
  expect(part(at('splitItemsAt'), 6)).toEqual([3, 0, 3, 1, 3, 2]);
  expect(part(at('splitRowsAt'), 2)).toEqual([3, 0]);
  expect(part(at('wholeRowsAt'), 3)).toEqual([0, 1, 2]);
  const floats = new Float32Array(words.buffer);
  const first = at('logitsAt');
  expect(part(first, 4)).toEqual([2, 2, 1, 4]);
  expect(part(first + 8, 5)).toEqual([0, 0, 0, 3, 0]);
  const second = first + 16;
  expect(part(second, 4)).toEqual([3, 0, 1 | 2 | 4, 0]);
  expect([floats[second + 4], words[second + 5], floats[second + 6], floats[second + 7]]).toEqual([
    0.5, 3, 0.25, 0.125,
  ]);
  expect(part(second + 8, 5)).toEqual([2, 1, 9, 2, 3]);
});

test('of several logits rows of a slot, the last one gives it its id', () => {
  const { logits } = encode({
    sequences: [{ slot: 1, tokens: [1, 2, 3], startPosition: 0, blockTable: [0] }],
    logits: [logitsRow(0, 1), logitsRow(2, 1), logitsRow(2, 3)],
  });
  expect(logits.map((entry) => entry.writesSlot)).toEqual([false, true, true]);
});

describe('refuses by name', () => {
  const sequence = (more: Partial<StepSequence>): StepBatch => ({
    sequences: [{ slot: 0, tokens: [1], startPosition: 0, blockTable: [0], ...more }],
    logits: [],
  });
  const logits = (...rows: LogitsRow[]): StepBatch => ({ ...sequence({ tokens: [1, 2] }), logits: rows });
  const sampling = (more: Partial<typeof GREEDY>) => logits(logitsRow(0, 0, { sampling: { ...GREEDY, ...more } }));
  const twice = { slot: 0, tokens: [1], startPosition: 0, blockTable: [0] };
  test.each<[string, StepBatch, RegExp]>([
    ['no rows at all', { sequences: [], logits: [] }, /at least one row/],
    ['an empty sequence', sequence({ tokens: [] }), /sequence 0: no rows/],
    ['a slot', sequence({ slot: 4 }), /slot 4 is not below 4/],
    ['a slot twice', { sequences: [twice, twice], logits: [] }, /slot 0 occurs twice/],
    ['a token', sequence({ tokens: [1, 100], blockTable: [0] }), /token 1 is outside the vocabulary of 100/],
    ['a negative token', sequence({ tokens: [-1] }), /token 0 is outside/],
    ['the context', sequence({ startPosition: 400, blockTable: table(26) }), /positions 400 … 400 in a context of 400/],
    ['a short table', sequence({ startPosition: 16, blockTable: [0] }), /1 blocks in its table, 2 needed/],
    ['a block', sequence({ blockTable: [30] }), /block 30 is not below 30/],
    ['rows', sequence({ tokens: new Array(65).fill(1), blockTable: table(5) }), /65 rows, at most 64/],
    ['a logits row', logits(logitsRow(2, 0)), /logits row 0: row 2 is not below 2/],
    ['their order', logits(logitsRow(1, 0), logitsRow(0, 0)), /logits row 1: rows are not in ascending order/],
    ['their number', logits(...new Array(5).fill(logitsRow(0, 0))), /5 logits rows, at most 4/],
    ['top logprobs', logits(logitsRow(0, 0, { topLogprobs: 6 })), /topLogprobs 6, at most 5/],
    ['temperature', sampling({ temperature: -1 }), /temperature -1/],
    ['a NaN', sampling({ temperature: Number.NaN }), /temperature NaN/],
    ['topP', sampling({ topP: 0 }), /topP 0 is not in/],
    ['minP', sampling({ minP: 1.5 }), /minP 1.5 is not in/],
    ['topK', sampling({ topK: -1 }), /topK -1/],
  ])('%s', (_, batch, message) => {
    expect(() => encode(batch)).toThrow(message);
  });
});
