import { afterAll, beforeAll, expect, test } from 'vitest';
import { Gpu } from './gpu.ts';
import type { LogitsEntry } from './pack-step.ts';
import { argmaxReference, FLOAT_MAX, logprobsReference, orderReference, sampleReference } from './sampler.reference.ts';
import { RESULT_WORDS, Sampler } from './sampler.ts';
import { JOB_FLOOR, JOB_STATE, JOB_TASK, JOB_WHOLE, PICK, PICK_STATE } from './sampler-layout.ts';
import { keptTokens } from './testing/kept-tokens.ts';
import { KernelBench } from './testing/kernel-bench.ts';
import { possibleDraws } from './testing/possible-draws.ts';
import { Random } from './testing/random.ts';
import { randomEntry, randomLogits } from './testing/random-sampling.ts';
import { readTop } from './top-logprobs.ts';

const TILE = 8;
const MAX_TOP = TILE * 600;
const MAX_IDS = 3;

/** Vocabularies, with or without buckets, and how many tiles of random rows each gets: in CI, and at length. */
const PLACES: readonly (Place & { readonly tiles: number; readonly long: number })[] = [
  ...[1, 2, 3, 64, 65].map((vocabulary) => ({ vocabulary, small: 4096, tiles: 2, long: 40 })),
  { vocabulary: 32, small: 4096, tiles: 4, long: 160 },
  { vocabulary: 513, small: 4096, tiles: 8, long: 120 },
  { vocabulary: 512, small: 0, threads: 64, tiles: 6, long: 120 },
  { vocabulary: 1001, small: 0, tiles: 6, long: 100 },
  { vocabulary: 1000, small: 0, late: true, tiles: 4, long: 60 },
  { vocabulary: 4096, small: 4096, threads: 64, tiles: 3, long: 40 },
  { vocabulary: 4097, small: 4096, tiles: 1, long: 60 },
  { vocabulary: 9000, small: 4096, tiles: 4, long: 60 },
  { vocabulary: 49_152, small: 4096, tiles: 2, long: 30 },
  { vocabulary: 151_936, small: 4096, tiles: 1, long: 12 },
];

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

interface Place {
  readonly vocabulary: number;
  readonly small: number;
  /** Of a row's workgroup; absent: what the adapter gets. */
  readonly threads?: number;
  /** Buckets aren't there yet. */
  readonly late?: boolean;
}

/** What the GPU gives for a row. */
interface Told {
  readonly id: number;
  readonly nonFinite: boolean;
  readonly logprob: number;
  readonly top: ReturnType<typeof readTop>;
  readonly ids: Float32Array;
  readonly cutKey: number;
  readonly cutId: number;
  readonly floor: number;
  readonly keptMass: number;
  /** Whether the draw was searched for; what stays is told only then. */
  readonly searched: boolean;
}

/** A sampler over a tile of rows, at one vocabulary. */
class SampledTile {
  readonly #sampler: Sampler;
  readonly #buffers: { readonly step: GPUBuffer; readonly logits: GPUBuffer; readonly slotIds: GPUBuffer };

  private constructor(sampler: Sampler, buffers: SampledTile['buffers']) {
    this.#sampler = sampler;
    this.#buffers = buffers;
  }

  get buffers() {
    return this.#buffers;
  }

  static async open({ vocabulary, small, threads, late = false }: Place): Promise<SampledTile> {
    const [step, logits, lastIds, slotIds] = await Promise.all([
      bench.zeros(1024),
      bench.zeros(TILE * vocabulary),
      bench.zeros(64),
      bench.zeros(64 * (1 + MAX_IDS)),
    ]);
    const sampler = await Sampler.create(
      // What others stand in for never comes.
      late ? Object.assign(new Gpu(bench.gpu.device), { late: async () => {} }) : bench.gpu,
      {
        vocabulary,
        tileRows: TILE,
        maxLogitsRows: TILE,
        maxTop: MAX_TOP,
        maxIds: TILE * MAX_IDS,
        maxLogprobIds: MAX_IDS,
        smallVocabulary: small,
        ...(threads === undefined ? {} : { threads }),
      },
      { step, logits, lastIds, slotIds },
    );
    return new SampledTile(sampler, { step, logits, slotIds });
  }

  async sample(
    rows: readonly Float32Array[],
    entries: readonly LogitsEntry[],
    ids: readonly number[],
  ): Promise<Told[]> {
    const { queue } = bench.gpu.device;
    const one = { slot: 0, tokens: Uint32Array.of(0), startPosition: 0, blockTable: [0] };
    const { packed } = await bench.step([one], entries);
    queue.writeBuffer(this.#buffers.step, 0, packed.words.slice());
    rows.forEach((row, i) => {
      queue.writeBuffer(this.#buffers.logits, i * row.byteLength, row.slice());
    });
    queue.writeBuffer(this.#buffers.slotIds, 0, Uint32Array.of(ids.length, ...ids));
    await bench.run((pass) => this.#sampler.encode(pass, 0, entries));
    const [results, top, jobs, picks, told] = await Promise.all([
      bench.readWords(this.#sampler.results),
      bench.readWords(this.#sampler.top),
      bench.read(this.#sampler.jobs),
      bench.readWords(this.#sampler.picks),
      bench.read(this.#sampler.idLogprobs),
    ]);
    const [resultFloats, pickFloats] = [new Float32Array(results.buffer), new Float32Array(picks.buffer)];
    const jobWords = new Uint32Array(jobs.buffer);
    return entries.map(
      (entry, i): Told => ({
        id: results[i * RESULT_WORDS]!,
        nonFinite: results[i * RESULT_WORDS + 1] !== 0,
        logprob: resultFloats[i * RESULT_WORDS + 2]!,
        top: readTop(top, entry.topAt, entry.top),
        ids: told.slice(entry.idsAt!, entry.idsAt! + ids.length),
        cutKey: picks[i * PICK_STATE + PICK.cutKey]!,
        cutId: picks[i * PICK_STATE + PICK.cutId]!,
        floor: jobs[i * JOB_STATE + JOB_FLOOR]!,
        keptMass: pickFloats[i * PICK_STATE + PICK.keptMass]!,
        searched: [JOB_TASK, JOB_WHOLE].some((word) => jobWords[i * JOB_STATE + word] !== 0),
      }),
    );
  }
}

/** How a draw compares: the reference's, or what rounding at some edge may make of it. */
type Verdict = 'same' | 'edge';

function checkDraw(logits: Float32Array, entry: LogitsEntry, told: Told): Verdict {
  if (told.searched) checkKept(logits, entry, told);
  expect([...possibleDraws(logits, entry)], 'what is drawn').toContain(told.id);
  return told.id === sampleReference(logits, entry, entry.outputPosition) ? 'same' : 'edge';
}

/** Checks what a search found to stay. */
function checkKept(logits: Float32Array, entry: LogitsEntry, told: Told): void {
  const { order, sums, least, most } = keptTokens(logits, entry);
  const cutAt = told.cutKey === 0 ? order.length - 1 : order.indexOf(told.cutId);
  expect(cutAt, 'the cut is a token').toBeGreaterThanOrEqual(0);
  let kept = 0;
  while (kept <= cutAt && logits[order[kept]!]! >= told.floor) kept++;
  expect(kept, 'no fewer stay').toBeGreaterThanOrEqual(least);
  expect(kept, 'no more stay').toBeLessThanOrEqual(most);
  expect(Math.abs(told.keptMass / sums[kept]! - 1), 'their mass').toBeLessThan(1e-4);
}

function expectLogprob(actual: number, expected: number): void {
  // A probability's relative error is the logprob's absolute one; a logit's own rounding counts where it is huge.
  if (expected === -FLOAT_MAX) expect(actual).toBe(-FLOAT_MAX);
  else expect(Math.abs(actual - expected)).toBeLessThanOrEqual(1e-4 + 4e-7 * Math.abs(expected));
}

function checkLogprobs(logits: Float32Array, entry: LogitsEntry, told: Told, ids: readonly number[]): void {
  const logprobs = logprobsReference(logits, entry.sampled ? entry.temperature : 0);
  if (entry.logprob) expectLogprob(told.logprob, logprobs[entry.scored ?? told.id]!);
  if (entry.idLogprobs) {
    ids.forEach((id, i) => {
      expectLogprob(told.ids[i]!, logprobs[id]!);
    });
  }
  if (entry.top === 0) return;
  // Which they are is exact; their order may differ where logprobs are alike.
  const order = orderReference(logits);
  expect([...told.top.ids].sort((a, b) => a - b)).toEqual([...order.slice(0, entry.top)].sort((a, b) => a - b));
  told.top.ids.forEach((id, i) => {
    expectLogprob(told.top.logprobs[i]!, logprobs[id]!);
    if (i > 0) expect(told.top.logprobs[i]!).toBeLessThanOrEqual(told.top.logprobs[i - 1]!);
  });
}

function randomTile(random: Random, vocabulary: number) {
  const rows = Array.from({ length: TILE }, () => randomLogits(random, vocabulary));
  let topAt = 0;
  const entries = rows.map((_, i): LogitsEntry => {
    const scored = random.integer(0, 9) === 0 ? random.integer(0, vocabulary - 1) : undefined;
    const drawn = randomEntry(random, vocabulary);
    const entry = { ...drawn, sampled: drawn.sampled && scored === undefined, scored, topAt };
    topAt += entry.top;
    return { ...entry, idLogprobs: random.integer(0, 3) === 0, idsAt: i * MAX_IDS };
  });
  return { rows, entries };
}

test.each(PLACES)('random rows of $vocabulary ids, searched whole up to $small', async ({ tiles, long, ...place }) => {
  const { vocabulary } = place;
  const random = new Random(vocabulary + place.small);
  const tile = await SampledTile.open(place);
  const verdicts = { same: 0, edge: 0 };
  for (let round = 0; round < (import.meta.env.SHOAL_LONG === '1' ? long : tiles); round++) {
    const ids = Array.from({ length: MAX_IDS }, () => random.integer(0, vocabulary - 1));
    const { rows, entries } = randomTile(random, vocabulary);
    const told = await tile.sample(rows, entries, ids);
    entries.forEach((entry, i) => {
      const logits = rows[i]!;
      const context = `round ${round}, row ${i}: ${JSON.stringify(entry, (_, v) => (typeof v === 'bigint' ? `${v}` : v))}`;
      try {
        expect(told[i]!.nonFinite).toBe(logits.every((logit) => logit === -FLOAT_MAX));
        if (told[i]!.nonFinite) return;
        if (entry.sampled) verdicts[checkDraw(logits, entry, told[i]!)]++;
        else expect(told[i]!.id).toBe(entry.scored ?? argmaxReference(logits));
        checkLogprobs(logits, entry, told[i]!, ids);
      } catch (error) {
        throw new Error(`${context}\n${(error as Error).message}`, { cause: error });
      }
    });
  }
  // Edges are as rare as rounding makes them.
  expect(verdicts.edge).toBeLessThanOrEqual(0.02 * verdicts.same + 1);
});

test.each([0, 4096])('a row has the same bits with few threads and many, searched whole up to %i', async (small) => {
  const random = new Random(small + 5);
  const vocabulary = 1000;
  const [few, many] = [
    await SampledTile.open({ vocabulary, small, threads: 4 }),
    await SampledTile.open({ vocabulary, small, threads: 64 }),
  ];
  for (let round = 0; round < (import.meta.env.SHOAL_LONG === '1' ? 60 : 4); round++) {
    const { rows, entries } = randomTile(random, vocabulary);
    const chosen = ({ id, nonFinite, logprob, top, searched, ...of }: Told) => [
      ...[id, nonFinite, logprob, top, searched],
      ...(searched ? [of.cutKey, of.cutId, of.keptMass] : []),
    ];
    const told = (await few.sample(rows, entries, [0, 7, 999])).map(chosen);
    expect((await many.sample(rows, entries, [0, 7, 999])).map(chosen)).toEqual(told);
    // And in any place and company.
    const order = random.permutation(TILE).slice(0, random.integer(1, TILE));
    const some = await few.sample(
      order.map((i) => rows[i]!),
      order.map((i, at) => ({ ...entries[i]!, idsAt: at * MAX_IDS })),
      [0, 7, 999],
    );
    expect(some.map(chosen)).toEqual(order.map((i) => told[i]!));
  }
});
