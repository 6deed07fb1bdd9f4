import { describe, expect, test } from 'vitest';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { LogitsRow, RunnerLimits, SlotStart, StepBatch, StepSequence } from './runner.ts';
import { PLAIN_SLOT, type SlotTraits } from './slot-traits.ts';
import { encodeStep } from './step-metadata.ts';
import { GREEDY, logitsRow, slotStart } from './testing/generate.ts';

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
  kvGroups: [{ blocks: 30 }],
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

test("a sequence's adapter is its last word, one more than its slot", () => {
  const sequences = [
    { slot: 0, tokens: [1, 2], startPosition: 0, blockTable: [0] },
    { slot: 1, tokens: [3], startPosition: 0, blockTable: [1], adapter: 1 },
  ];
  const encodeFor = (maxAdapters: number, some = sequences) =>
    encodeStep(
      new Uint32Array(4096),
      { sequences: some, logits: [] },
      { limits: { ...LIMITS, maxAdapters }, splitItems: 100 },
      new Array(4).fill(PLAIN_SLOT),
    );
  const { words, adapted } = encodeFor(2);
  const at = words[STEP_HEADER.sequencesAt]!;
  expect([words[at + 7], words[at + 15], adapted]).toEqual([0, 2, true]);
  expect(encodeFor(2, sequences.slice(0, 1)).adapted).toBe(false);
  expect(() => encodeFor(1)).toThrow('sequence 1: adapter 1 is not below 1');
  expect(() => encode({ sequences, logits: [] })).toThrow('adapter 1 is not below 0');
});

test('of several logits rows of a slot, the last one gives it its id', () => {
  const { logits } = encode({
    sequences: [{ slot: 1, tokens: [1, 2, 3], startPosition: 0, blockTable: [0] }],
    logits: [logitsRow(0, 1), logitsRow(2, 1), logitsRow(2, 3)],
  });
  expect(logits.map((entry) => entry.writesSlot)).toEqual([false, true, true]);
});

test('records of adjusted, scored and masked rows, the masked ones last', () => {
  const started = { frequencyPenalty: 1, logprobIds: [5, 6], stopIds: [1], minNewTokens: 3 };
  const { words, logits, masked, ids, hidden, slots } = encode({
    starts: [slotStart(0, started), slotStart(1, { stopIds: [1], minNewTokens: 3 }), slotStart(3, { logprobIds: [7] })],
    sequences: [
      { slot: 0, tokens: [7, 8, 9], startPosition: 0, blockTable: [5] },
      { slot: 1, tokens: { embeddings: new Float32Array(8) }, startPosition: 0, blockTable: [6] },
    ],
    logits: [
      logitsRow(0, 0, { scored: 99, logprob: true, idLogprobs: true }),
      logitsRow(2, 0, { masked: true, idLogprobs: true, topLogprobs: 2 }),
      logitsRow(3, 3, { idLogprobs: true, topLogprobs: 3 }),
      logitsRow(4, 1, { hidden: true, outputPosition: 2 }),
    ],
  });
  expect(logits.map(({ index }) => index)).toEqual([0, 2, 3, 1]);
  expect([masked, ids, hidden]).toEqual([1, 5, 1]);
  expect(words[STEP_HEADER.logits]).toBe(4);
  const record = (i: number) => {
    const at = words[STEP_HEADER.logitsAt]! + i * 16;
    return [...words.slice(at, at + 3), ...words.slice(at + 11, at + 16)];
  };
  expect(record(0)).toEqual([0, 0, 4 | 8 | 32, 0, 0, 99, 0, 0]);
  expect(record(1)).toEqual([3, 3, 1 | 32, 3, 0, 0, 2, 0]);
  expect(record(2)).toEqual([4, 1, 1 | 16, 0, 3, 0, 3, 0]);
  expect(record(3)).toEqual([2, 0, 1 | 16 | 32 | 64, 2, 3, 0, 3, 0]);
  const rows = words[STEP_HEADER.rowsAt]! + 12;
  expect([...words.slice(rows, rows + 8)]).toEqual([1, 0, 0, 2, 1, 1, 0, 2]);
  expect(slots.map(({ outputs }) => outputs)).toEqual([1, 0, 0, 0]);
});

test('a slot with penalties counts its draws, no more than a context holds', () => {
  const limits = { ...LIMITS, contextLength: 5 };
  const sequences = [{ slot: 1, tokens: [7], startPosition: 3, blockTable: [5] }];
  const step = {
    sequences,
    logits: [logitsRow(0, 1)],
    starts: [slotStart(1, { frequencyPenalty: 1, outputIds: [1, 2, 3] })],
  };
  const into = new Uint32Array(4096);
  const room = { limits, splitItems: 0 };
  const plain = new Array(4).fill(PLAIN_SLOT);
  const { slots } = encodeStep(into, { ...step, repeat: 2 }, room, plain);
  expect(slots[1]!.outputs).toBe(5);
  const more = { sequences, logits: step.logits };
  expect(() => encodeStep(into, more, room, slots)).toThrow(/slot 1 draws 6 outputs since its start/);
  expect(encodeStep(into, { ...more, starts: [slotStart(1)] }, room, slots).slots[1]!.outputs).toBe(0);
});

test('slots keep what they were started with until another start', () => {
  const sequences = [{ slot: 1, tokens: [7], startPosition: 0, blockTable: [5] }];
  const step = { sequences, logits: [logitsRow(0, 1, { outputPosition: 2 })] };
  const adjusted = (slots?: readonly SlotTraits[], more: Partial<StepBatch> = {}) => {
    const encoded = encode({ ...step, ...more }, slots);
    return [encoded.logits[0]!.adjusted, encoded.slots[1]!.penalised, encoded.slots] as const;
  };
  const [first, counted, slots] = adjusted(undefined, { starts: [slotStart(1, { repetitionPenalty: 1.5 })] });
  expect([first, counted]).toEqual([true, true]);
  expect(adjusted(slots).slice(0, 2)).toEqual([true, true]);
  expect(adjusted(slots, { starts: [slotStart(1)] }).slice(0, 2)).toEqual([false, false]);
  expect(adjusted(slots, { starts: [slotStart(1, { biases: [{ id: 1, bias: 0 }] })] }).slice(0, 2)).toEqual([
    true,
    false,
  ]);
  const min = (minNewTokens: number) => [slotStart(1, { stopIds: [1], minNewTokens })];
  expect(adjusted(slots, { starts: min(2) })[0]).toBe(false);
  expect(adjusted(slots, { starts: min(3) })[0]).toBe(true);
});

describe('refuses by name', () => {
  const sequence = (more: Partial<StepSequence>): StepBatch => ({
    sequences: [{ slot: 0, tokens: [1], startPosition: 0, blockTable: [0], ...more }],
    logits: [],
  });
  const logits = (...rows: LogitsRow[]): StepBatch => ({ ...sequence({ tokens: [1, 2] }), logits: rows });
  const sampling = (more: Partial<typeof GREEDY>) => logits(logitsRow(0, 0, { sampling: { ...GREEDY, ...more } }));
  const start = (more: Partial<SlotStart>) => ({ starts: [slotStart(0, more)] });
  const starting = (more: Partial<SlotStart>) => ({ ...sequence({}), ...start(more) });
  const masked = logitsRow(0, 0, { masked: true });
  const top = logitsRow(0, 0, { topLogprobs: 5 });
  const hidden = logitsRow(0, 0, { hidden: true });
  const ids = logitsRow(0, 0, { idLogprobs: true });
  const REPEATED = { ...sequence({}), repeat: 2 };
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
    ['half an embedding', sequence({ tokens: { embeddings: new Float32Array(6) } }), /sequence 0: .* rows of 4/],
    [
      'a NaN in one',
      sequence({ tokens: { embeddings: Float32Array.of(0, 0, Number.NaN, 0) } }),
      /number 2 is not finite/,
    ],
    ['a scored id', logits(logitsRow(0, 0, { scored: 100 })), /scored is outside the vocabulary of 100/],
    ['scored and masked', logits(logitsRow(0, 0, { scored: 1, masked: true })), /scored and masked/],
    ['two masked rows', logits(masked, { ...masked, row: 1 }), /logits row 1: slot 0 draws two rows, masked/],
    ['a draw before a mask', logits(logitsRow(0, 0), { ...masked, row: 1 }), /slot 0 draws two rows, masked/],
    ['a draw after a mask', logits(masked, logitsRow(1, 0)), /slot 0 draws two rows, masked/],
    ['all top logprobs', logits(top, top), /10 top logprobs, at most 8/],
    ['hidden rows', logits(hidden, hidden), /2 hidden rows, at most 1/],
    [
      'two draws with penalties',
      { ...logits(logitsRow(0, 0), logitsRow(1, 0)), ...start({ presencePenalty: 1 }) },
      /two rows, with penalties/,
    ],
    [
      "ids' logprobs",
      { ...logits(ids, ids, ids), ...start({ logprobIds: [1, 2, 3] }) },
      /9 logprobs of slots' ids, at most 8/,
    ],
    ['a repeated mask', { ...REPEATED, logits: [masked] }, /a repeated step has no masked/],
    ['repeated top logprobs', { ...REPEATED, logits: [top] }, /a repeated step has no topLogprobs/],
    ["repeated ids' logprobs", { ...REPEATED, logits: [ids] }, /a repeated step has no idLogprobs/],
    ['repeated hidden states', { ...REPEATED, logits: [hidden] }, /a repeated step has no hidden/],
    [
      'a repeated scored row',
      { ...REPEATED, logits: [logitsRow(0, 0, { scored: 0 })] },
      /a repeated step has no scored/,
    ],
    ["a start's slot", { ...sequence({}), starts: [slotStart(4)] }, /start 0: slot 4 is not below 4/],
    ['two starts', { ...sequence({}), starts: [slotStart(1), slotStart(1)] }, /start 1: slot 1 occurs twice/],
    ['an output id', starting({ outputIds: [0, 100] }), /outputIds 1 is outside the vocabulary/],
    ['output ids', starting({ outputIds: new Array(401).fill(0) }), /401 outputIds in a context of 400/],
    ['a stop id', starting({ stopIds: [100] }), /stopIds 0 is outside/],
    ['a logprob id', starting({ logprobIds: [-1] }), /logprobIds 0 is outside/],
    ['logprob ids', starting({ logprobIds: [1, 2, 3, 4] }), /4 logprobIds, at most 3/],
    ['frequencyPenalty', starting({ frequencyPenalty: 2.5 }), /frequencyPenalty 2.5 is not in \[-2, 2\]/],
    ['presencePenalty', starting({ presencePenalty: Number.NaN }), /presencePenalty NaN/],
    ['repetitionPenalty', starting({ repetitionPenalty: 0 }), /repetitionPenalty 0 is not in \(0, 2\]/],
    ['minNewTokens', starting({ minNewTokens: -1 }), /minNewTokens -1/],
    ["a bias's id", starting({ biases: [{ id: 100, bias: 0 }] }), /bias 0: its id is outside/],
    [
      'a bias',
      starting({ biases: [{ id: 1, bias: Number.POSITIVE_INFINITY }] }),
      /bias 0: Infinity is not a finite f32/,
    ],
    [
      'a bias twice',
      starting({
        biases: [
          { id: 1, bias: 0 },
          { id: 1, bias: 0 },
        ],
      }),
      /bias 1: its id occurs twice/,
    ],
    ['biases', starting({ biases: [1, 2, 3, 4].map((id) => ({ id, bias: 0 })) }), /4 biases, at most 3/],
  ])('%s', (_, batch, message) => {
    expect(() => encode(batch)).toThrow(message);
  });
});
