import { afterAll, beforeAll, expect, test } from 'vitest';
import { adjustLogitsReference } from './adjust-logits.reference.ts';
import { AdjustLogits } from './adjust-logits.ts';
import type { LogitsEntry } from './pack-step.ts';
import { argmaxReference, FLOAT_MAX, hasNonFinite, logprobsReference } from './sampler.reference.ts';
import { RESULT_WORDS, Sampler } from './sampler.ts';
import { packBiases, packCounts, packIdSet, packSlot, SLOT_WORDS } from './slot-layout.ts';
import { KernelBench } from './testing/kernel-bench.ts';
import { possibleDraws } from './testing/possible-draws.ts';
import { Random } from './testing/random.ts';
import { randomEntry, randomLogits } from './testing/random-sampling.ts';

const TILE = 8;
const MAX_PAIRS = 64;

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** What one row's slot holds. */
interface Slot {
  readonly outputIds: readonly number[];
  readonly penalties: readonly [number, number, number] | undefined;
  readonly biases: readonly { readonly id: number; readonly bias: number }[];
  readonly stopIds: readonly number[];
  readonly minNewTokens: number;
  readonly allowed: readonly number[] | undefined;
}

function randomSlot(random: Random, vocabulary: number): Slot {
  const often = (share: number) => random.uniform() < share;
  const id = () => random.integer(0, vocabulary - 1);
  const ids = (most: number) => Array.from({ length: random.integer(0, most) }, id);
  const penalties = [4 * random.uniform() - 2, 4 * random.uniform() - 2, 0.5 + 1.5 * random.uniform()] as const;
  const biased = new Set(ids(20));
  return {
    outputIds: ids(60),
    penalties: often(0.6) ? penalties : undefined,
    biases: often(0.5) ? [...biased].map((one) => ({ id: one, bias: 20 * random.uniform() - 10 })) : [],
    stopIds: ids(5),
    minNewTokens: often(0.5) ? 6000 : 0,
    // At times nothing is allowed but what is banned.
    allowed: often(0.4) ? ids(often(0.3) ? 1 : vocabulary) : undefined,
  };
}

/** A row's logits as its draw sees them. */
function adjusted(logits: Float32Array, slot: Slot, outputPosition: number): Float32Array {
  const counts = new Map<number, number>();
  for (const id of slot.penalties ? slot.outputIds : []) counts.set(id, (counts.get(id) ?? 0) + 1);
  const [frequencyPenalty, presencePenalty, repetitionPenalty] = slot.penalties ?? [0, 0, 1];
  return adjustLogitsReference(logits, {
    counts,
    frequencyPenalty,
    presencePenalty,
    repetitionPenalty,
    mask: slot.allowed && packIdSet(slot.allowed, logits.length),
    bannedIds: outputPosition < slot.minNewTokens ? slot.stopIds : [],
    biases: slot.biases,
  });
}

/** The kernels of both, over one scratch of logits, at one vocabulary. */
async function open(vocabulary: number) {
  const words = Math.ceil(vocabulary / 32);
  const zeros = (count: number) => bench.zeros(count);
  const buffers = {
    step: await zeros(1024),
    logits: await zeros(TILE * vocabulary),
    slots: await zeros(TILE * SLOT_WORDS),
    counted: await zeros(TILE * MAX_PAIRS * 2),
    biases: await zeros(TILE * MAX_PAIRS * 2),
    stops: await zeros(TILE * words),
    masks: await zeros(TILE * words),
    lastIds: await zeros(TILE),
    slotIds: await zeros(2 * TILE),
  };
  const size = { vocabulary, tileRows: TILE, maxLogitsRows: TILE };
  const sampler = await Sampler.create(bench.gpu, { ...size, maxTop: 1, maxIds: 1, maxLogprobIds: 1 }, buffers);
  const adjust = await AdjustLogits.create(
    bench.gpu,
    { ...size, maxCounted: MAX_PAIRS, maxBiases: MAX_PAIRS },
    buffers,
  );
  return { buffers, sampler, adjust };
}

async function draw(
  { buffers, sampler, adjust }: Awaited<ReturnType<typeof open>>,
  rows: readonly Float32Array[],
  slots: readonly Slot[],
  entries: readonly LogitsEntry[],
): Promise<Uint32Array<ArrayBuffer>> {
  const vocabulary = rows[0]!.length;
  const words = Math.ceil(vocabulary / 32);
  const put = (buffer: GPUBuffer, at: number, data: Uint32Array | Float32Array) => {
    if (data.length > 0) bench.gpu.device.queue.writeBuffer(buffer, at * 4, data.slice());
  };
  slots.forEach((slot, i) => {
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
    put(buffers.logits, i * vocabulary, rows[i]!);
    put(buffers.slots, i * SLOT_WORDS, record);
    put(buffers.counted, i * MAX_PAIRS * 2, counts);
    put(buffers.biases, i * MAX_PAIRS * 2, packBiases(slot.biases));
    put(buffers.stops, i * words, packIdSet(slot.stopIds, vocabulary));
    if (slot.allowed) put(buffers.masks, i * words, packIdSet(slot.allowed, vocabulary));
  });
  const sequence = { slot: 0, tokens: [0], startPosition: 0, blockTable: [0] };
  const { packed, buffer } = await bench.step([sequence], entries);
  bench.gpu.buffers.free(buffer);
  const step = packed.words.slice();
  // Rows with masks have a submit of their own: here all rows are in one.
  step[2] = entries.length;
  put(buffers.step, 0, step);
  await bench.run((pass) => {
    adjust.encode(pass, 0, entries);
    sampler.encode(pass, 0, entries);
  });
  return bench.readWords(sampler.results, entries.length * RESULT_WORDS);
}

test.each([
  { vocabulary: 61, rounds: 16, long: 300 },
  { vocabulary: 512, rounds: 16, long: 300 },
  { vocabulary: 20_001, rounds: 4, long: 60 },
])('random rows of $vocabulary ids, adjusted and drawn', async ({ vocabulary, rounds, long }) => {
  const random = new Random(7 * vocabulary);
  const kernels = await open(vocabulary);
  let masked = 0;
  const tiles = import.meta.env.SHOAL_LONG === '1' ? long : rounds;
  for (let round = 0; round < tiles; round++) {
    const rows = Array.from({ length: TILE }, () => randomLogits(random, vocabulary));
    const slots = rows.map(() => randomSlot(random, vocabulary));
    const entries = slots.map(
      (slot, i): LogitsEntry => ({
        ...randomEntry(random, vocabulary),
        slot: i,
        top: 0,
        logprob: true,
        adjusted: true,
        mask: slot.allowed ? i : undefined,
      }),
    );
    const results = await draw(kernels, rows, slots, entries);
    const floats = new Float32Array(results.buffer);
    entries.forEach((entry, i) => {
      const logits = adjusted(rows[i]!, slots[i]!, entry.outputPosition);
      const id = results[i * RESULT_WORDS]!;
      const nothing = hasNonFinite(logits);
      expect(results[i * RESULT_WORDS + 1], `round ${round}, row ${i}`).toBe(Number(nothing));
      if (nothing) {
        masked++;
        return;
      }
      const possible = entry.sampled ? [...possibleDraws(logits, entry)] : [argmaxReference(logits)];
      expect(possible, `round ${round}, row ${i}`).toContain(id);
      const expected = logprobsReference(logits, entry.sampled ? entry.temperature : 0)[id]!;
      expect(expected).toBeGreaterThan(-FLOAT_MAX);
      const error = Math.abs(floats[i * RESULT_WORDS + 2]! - expected);
      expect(error, `round ${round}, row ${i}`).toBeLessThanOrEqual(1e-4 + 4e-7 * Math.abs(expected));
    });
  }
  // Most rows have something to draw, and some have nothing.
  expect(masked).toBeLessThan(tiles * 2);
});
