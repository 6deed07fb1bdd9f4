import { afterAll, beforeAll, expect, test } from 'vitest';
import { adjustLogitsReference, LOGIT_BOUND, MASKED_LOGIT } from './adjust-logits.reference.ts';
import { AdjustLogits } from './adjust-logits.ts';
import type { LogitsEntry } from './pack-step.ts';
import { packBiases, packCounts, packIdSet, packSlot, SLOT_WORDS } from './slot-layout.ts';
import { bits, GREEDY_ENTRY, KernelBench } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

const SLOTS = 6;
const TILE = 4;
const MAX_PAIRS = 300;

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** What one slot holds, and the row that is drawn for it. */
interface Slot {
  readonly outputIds: readonly number[];
  readonly penalties?: readonly [number, number, number];
  readonly biases: readonly { readonly id: number; readonly bias: number }[];
  readonly stopIds: readonly number[];
  readonly minNewTokens: number;
  readonly allowed?: readonly number[];
  readonly outputPosition: number;
  readonly adjusted: boolean;
}

const PLAIN: Slot = { outputIds: [], biases: [], stopIds: [], minNewTokens: 0, outputPosition: 0, adjusted: true };

/** Buffers of `slots`; row r of the step is slot SLOTS − 1 − r's, and draws `drawn[r]`. `again`: adjusted once more after that. */
async function open(
  vocabulary: number,
  slots: readonly Slot[],
  logits: readonly Float32Array[],
  drawn: readonly number[],
) {
  const words = Math.ceil(vocabulary / 32);
  const state = new Uint32Array(SLOTS * SLOT_WORDS);
  const counted = new Uint32Array(SLOTS * MAX_PAIRS * 2);
  const biases = new Uint32Array(SLOTS * MAX_PAIRS * 2);
  const stops = new Uint32Array(SLOTS * words);
  const masks = new Uint32Array(SLOTS * words);
  const entries: LogitsEntry[] = [];
  slots.forEach((slot, row) => {
    const index = SLOTS - 1 - row;
    const counts = packCounts(slot.outputIds);
    const [frequencyPenalty, presencePenalty, repetitionPenalty] = slot.penalties ?? [0, 0, 1];
    const record = packSlot({
      frequencyPenalty,
      presencePenalty,
      repetitionPenalty,
      penalised: slot.penalties !== undefined,
      counted: counts.length / 2,
      biases: slot.biases.length,
      minNewTokens: slot.minNewTokens,
    });
    state.set(record, index * SLOT_WORDS);
    counted.set(counts, index * MAX_PAIRS * 2);
    biases.set(packBiases(slot.biases), index * MAX_PAIRS * 2);
    stops.set(packIdSet(slot.stopIds, vocabulary), index * words);
    if (slot.allowed) masks.set(packIdSet(slot.allowed, vocabulary), row * words);
    const { outputPosition, adjusted } = slot;
    entries.push({
      ...GREEDY_ENTRY,
      writesSlot: true,
      slot: index,
      outputPosition,
      adjusted,
      mask: slot.allowed ? row : undefined,
    });
  });
  const sequence = { slot: 0, tokens: [0], startPosition: 0, blockTable: [0] };
  // Rows with masks are counted by the header's writer in their own submit: here all are.
  const { packed } = await bench.step([sequence], entries);
  const step = packed.words.slice();
  step[2] = entries.length;
  const lastIds = new Uint32Array(SLOTS);
  const scratch = new Float32Array(TILE * vocabulary);
  const buffers = {
    step: await bench.buffer(step),
    logits: await bench.buffer(scratch),
    lastIds: await bench.buffer(lastIds),
    slots: await bench.buffer(state),
    counted: await bench.buffer(counted),
    biases: await bench.buffer(biases),
    stops: await bench.buffer(stops),
    masks: await bench.buffer(masks),
  };
  const kernel = await AdjustLogits.create(
    bench.gpu,
    { vocabulary, tileRows: TILE, maxLogitsRows: slots.length, maxCounted: MAX_PAIRS, maxBiases: MAX_PAIRS },
    buffers,
  );
  const adjust = async () => {
    const adjusted: Float32Array<ArrayBuffer>[] = [];
    for (let tile = 0; tile * TILE < slots.length; tile++) {
      const rows = entries.slice(tile * TILE, (tile + 1) * TILE);
      rows.forEach((_, row) => {
        scratch.set(logits[tile * TILE + row]!, row * vocabulary);
      });
      bench.gpu.device.queue.writeBuffer(buffers.logits, 0, scratch);
      await bench.run((pass) => kernel.encode(pass, tile, rows));
      const all = await bench.read(buffers.logits, TILE * vocabulary);
      for (let row = 0; row < rows.length; row++) adjusted.push(all.slice(row * vocabulary, (row + 1) * vocabulary));
    }
    return adjusted;
  };
  const adjusted = await adjust();
  drawn.forEach((id, row) => {
    lastIds[SLOTS - 1 - row] = id;
  });
  bench.gpu.device.queue.writeBuffer(buffers.lastIds, 0, lastIds);
  const again = await adjust();
  return { adjusted, again, buffers };
}

function reference(slot: Slot, logits: Float32Array, vocabulary: number): Float32Array {
  const mask = slot.allowed ? packIdSet(slot.allowed, vocabulary) : undefined;
  const [frequencyPenalty, presencePenalty, repetitionPenalty] = slot.penalties ?? [0, 0, 1];
  const counts = new Map<number, number>();
  for (const id of slot.outputIds) counts.set(id, (counts.get(id) ?? 0) + 1);
  if (!slot.adjusted) {
    return mask ? adjustLogitsReference(logits, { ...NOTHING, mask }) : logits;
  }
  return adjustLogitsReference(logits, {
    counts: slot.penalties ? counts : new Map(),
    frequencyPenalty,
    presencePenalty,
    repetitionPenalty,
    mask,
    bannedIds: slot.outputPosition < slot.minNewTokens ? slot.stopIds : [],
    biases: slot.biases,
  });
}

const NOTHING = {
  counts: new Map<number, number>(),
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  bannedIds: [],
  biases: [],
};

/** Masked ids and non-finite numbers are the same bits, all others the same to a few roundings. */
function expectAlike(actual: Float32Array<ArrayBuffer>, expected: Float32Array) {
  const wrong = [...expected.keys()].filter((id) => {
    const [a, b] = [actual[id]!, expected[id]!];
    if (b === MASKED_LOGIT || !Number.isFinite(b)) return !Object.is(a, b);
    return !(Math.abs(a - b) <= 1e-6 * (1 + Math.abs(b)) && a > MASKED_LOGIT);
  });
  expect(wrong).toEqual([]);
}

test.each([1, 7, 31, 32, 33, 64, 300, 1000])('random slots over a vocabulary of %i', async (vocabulary) => {
  const random = new Random(vocabulary);
  const some = (most: number) =>
    Array.from({ length: random.integer(0, most) }, () => random.integer(0, vocabulary - 1));
  const slots = Array.from({ length: SLOTS }, (_, i): Slot => {
    const allowed =
      i % 3 === 1 ? { allowed: random.permutation(vocabulary).slice(0, random.integer(1, vocabulary)) } : {};
    return {
      outputIds: some(250),
      ...(i % 2 === 0
        ? { penalties: [random.uniform() * 4 - 2, random.uniform() * 4 - 2, random.uniform() * 1.9 + 0.1] as const }
        : {}),
      biases: [...new Set(some(250))].map((id) => ({ id, bias: random.normal() * 10 })),
      stopIds: some(40),
      minNewTokens: random.integer(0, 3),
      outputPosition: random.integer(0, 3),
      adjusted: i !== 4,
      ...allowed,
    };
  });
  const logits = slots.map(() => random.normals(vocabulary, 5));
  const drawn = slots.map(() => random.integer(0, vocabulary - 1));
  const { adjusted, again } = await open(vocabulary, slots, logits, drawn);
  slots.forEach((slot, i) => {
    expectAlike(adjusted[i]!, reference(slot, logits[i]!, vocabulary));
    // What was drawn is penalised from the next row on.
    const grown = { ...slot, outputIds: [...slot.outputIds, drawn[i]!] };
    expectAlike(again[i]!, reference(grown, logits[i]!, vocabulary));
  });
});

test('zeros, ties, signs and the largest numbers stay finite, and above what is masked', async () => {
  const max = 3.4028234663852886e38;
  const values = Float32Array.of(0, -0, 1, 1, -1, -1, max, -max, 3.4e38, -3.4e38, 1e-40, -1e-40, 2e38, -2e38);
  const ids = [...values.keys()];
  const penalties = [
    [2, 2, 2],
    [-2, -2, 0.001],
    [0, 0, 1e-30],
    [0, 0, 1.5],
    [2, -2, 1],
  ] as const;
  const slots = penalties.map((three, i): Slot => {
    const bias = [max, -max, 1e38, -3e38, 0][i]!;
    return { ...PLAIN, outputIds: ids, penalties: three, biases: ids.map((id) => ({ id, bias })) };
  });
  // Without biases too: they hide what penalties make.
  const bare = slots.map((slot) => ({ ...slot, biases: [] })).slice(1, 2);
  const all = [...slots, ...bare];
  const { adjusted } = await open(
    values.length,
    all,
    all.map(() => values),
    new Array(all.length).fill(0),
  );
  adjusted.forEach((row, i) => {
    const expected = reference(all[i]!, values, values.length);
    for (const [id, logit] of row.entries()) {
      expect(Math.abs(logit)).toBeLessThanOrEqual(LOGIT_BOUND);
      // Near the bound a device may round the other way; a subnormal may be zero.
      expect(Math.abs(logit - expected[id]!)).toBeLessThanOrEqual(2e-6 * Math.abs(expected[id]!) + 1e-37);
    }
  });
});

test('NaN and infinities stay where they are, masked or not', async () => {
  const values = Float32Array.of(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 3);
  const slot: Slot = {
    ...PLAIN,
    outputIds: [0, 1, 2],
    penalties: [1, 1, 1.5],
    biases: [0, 1, 2].map((id) => ({ id, bias: 4 })),
    stopIds: [0, 1, 2],
    minNewTokens: 1,
    allowed: [3],
  };
  const { adjusted } = await open(4, [slot], [values], [3]);
  expect(bits(adjusted[0]!)).toEqual(bits(values));
});

test('all masked but one', async () => {
  const random = new Random(12);
  const logits = random.normals(100);
  const { adjusted } = await open(100, [{ ...PLAIN, adjusted: false, allowed: [77] }], [logits], [77]);
  expect([...adjusted[0]!.entries()].filter(([, logit]) => logit !== MASKED_LOGIT)).toEqual([[77, logits[77]]]);
});

test('draws are counted for slots with penalties: a new id, and one more of an old one', async () => {
  const penalties = [0.5, 0, 1] as const;
  const many = Array.from({ length: 200 }, (_, i) => i);
  const slots: Slot[] = [
    { ...PLAIN, penalties, outputIds: many },
    { ...PLAIN, penalties, outputIds: many },
    { ...PLAIN, penalties },
    { ...PLAIN, outputIds: [7], biases: [{ id: 1, bias: 1 }] },
    { ...PLAIN, penalties, adjusted: false, outputIds: [9] },
  ];
  const logits = slots.map(() => new Float32Array(300));
  const { buffers } = await open(300, slots, logits, [150, 250, 8, 7, 9]);
  const state = await bench.readWords(buffers.slots);
  const counted = await bench.readWords(buffers.counted);
  const pairs = (row: number) => {
    const slot = SLOTS - 1 - row;
    const at = slot * MAX_PAIRS * 2;
    const words = counted.slice(at, at + state[slot * SLOT_WORDS + 4]! * 2);
    return new Map(Array.from({ length: words.length / 2 }, (_, i) => [words[i * 2]!, words[i * 2 + 1]!]));
  };
  const each = new Map(many.map((id) => [id, 1]));
  expect(pairs(0)).toEqual(new Map([...each, [150, 2]]));
  expect(pairs(1)).toEqual(new Map([...each, [250, 1]]));
  expect(pairs(2)).toEqual(new Map([[8, 1]]));
  expect(pairs(3)).toEqual(new Map([[7, 1]]));
  expect(pairs(4)).toEqual(new Map([[9, 1]]));
});
