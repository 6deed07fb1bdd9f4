import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { type LowRankMatrices, LowRankSlots, shrunkNumbers } from './low-rank-slots.ts';
import { lowRankReference } from './low-rank-update.reference.ts';
import { LowRankUpdate, tiledNumbers } from './low-rank-update.ts';
import { pairedPlace } from './pair-order.ts';
import { playsGpu } from './row-threads.ts';
import { rowWords } from './row-words.ts';
import { TrialData } from './trial-data.ts';

const TOLERANCE = 1e-4;
/** Adapters of five rows, the third of which has none. */
const OWNERS = [0, 0, undefined, 1, 0] as const;

/** Updates by two adapters of other ranks, in all forms, in place and of sums that lie as a paired matrix's tiles do. */
export async function tryLowRank(trial: KernelTrial): Promise<void> {
  const half = 36;
  const shape = { label: 'trial', columns: 530, outputs: [half, half], maxRank: 6, slots: 2 };
  const all = 2 * half;
  const rows = OWNERS.length;
  const data = new TrialData(all);
  const slots = await trial.within(LowRankSlots.create(trial.gpu, shape));
  const update = (rank: number): LowRankMatrices => ({
    rank,
    a: data.numbers(rank * shape.columns, 0.1),
    b: data.numbers(half * rank),
  });
  const adapters = [
    [update(6), update(1)],
    [undefined, update(3)],
  ];
  adapters.forEach((updates, slot) => {
    slots.write(slot, updates);
  });
  const x = data.numbers(rows * shape.columns);
  const before = data.numbers(rows * all);
  const expected = before.slice();
  OWNERS.forEach((owner, row) => {
    if (owner === undefined) return;
    const input = x.subarray(row * shape.columns, (row + 1) * shape.columns);
    adapters[owner]!.forEach((own, module) => {
      const added = own && lowRankReference(own, input);
      added?.forEach((value, i) => {
        expected[row * all + module * half + i]! += 0.5 * value;
      });
    });
  });
  const matrix = { parts: [{ firstRow: 0, rows: half, tiles: Math.ceil(half / 32) }] };
  const stride = tiledNumbers(matrix);
  const placed = new Float32Array(rows * stride);
  before.forEach((value, i) => {
    placed[Math.floor(i / all) * stride + pairedPlace(i % all, half)] = value;
  });
  const sequences = [{ rows: 2, adapter: 0 }, { rows: 1 }, { rows: 1, adapter: 1 }, { rows: 1, adapter: 0 }].map(
    ({ rows: count, ...adapter }, slot) => ({
      ...{ slot, tokens: new Uint32Array(count), startPosition: 0, blockTable: [slot], ...adapter },
    }),
  );
  const { buffer: step } = await trial.step(sequences);
  const [input, tiles] = await Promise.all([trial.rows(x, shape.columns), trial.buffer(placed)]);
  const placements = [undefined, { tiles, matrix, half }];
  const forms = playsGpu(trial.gpu) ? (['row', 'shrink and expand'] as const) : (['shrink and expand'] as const);
  for (const [form, from] of forms.flatMap((form) => placements.map((from) => [form, from] as const))) {
    const [shrunk, output] = await Promise.all([
      trial.zeros(rows * shrunkNumbers(shape)),
      from ? trial.zeros(rows * 4 * rowWords(all)) : trial.rows(before, all),
    ]);
    const options = { outputStride: 4 * rowWords(all), scale: 0.5, ...(from ? { from } : {}) };
    const kernels = await LowRankUpdate.create(trial.gpu, slots, options, { step, input, shrunk, output }, form);
    const [actual] = await trial.run((pass) => kernels.encode(pass, rows), [output]);
    expectNear(`${form}: number${from ? ' of tiles' : ''}`, actual!, paddedRows(expected, all), TOLERANCE);
  }
}
