import { activationReference } from './activation.reference.ts';
import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { type LowRankMatrices, LowRankSlots, shrunkNumbers } from './low-rank-slots.ts';
import { lowRankReference } from './low-rank-update.reference.ts';
import { type LowRankFinish, LowRankUpdate, tiledNumbers } from './low-rank-update.ts';
import { pairedPlace } from './pair-order.ts';
import { ropeReference } from './rope.reference.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { TrialData } from './trial-data.ts';

const TOLERANCE = 1e-4;
const COLUMNS = 530;
/** Adapters of five rows, the third of which has none. */
const OWNERS = [0, 0, undefined, 1, 0] as const;
const HEADS = { heads: 3, kvHeads: 1, headSize: 12 } as const;

/** Updates by two adapters of other ranks, with each finish; those of tiles have a row without an adapter in them too. */
export async function tryLowRank(trial: KernelTrial): Promise<void> {
  const rows = OWNERS.length;
  const data = new TrialData(COLUMNS);
  const x = data.numbers(rows * COLUMNS);
  const { buffer: step } = await trial.step(
    [{ rows: 2, adapter: 0 }, { rows: 1 }, { rows: 1, adapter: 1 }, { rows: 1, adapter: 0 }].map(
      ({ rows: count, ...adapter }, slot) => ({
        ...{ slot, tokens: new Uint32Array(count), startPosition: 0, blockTable: [slot], ...adapter },
      }),
    ),
  );
  const input = await trial.rows(x, COLUMNS);
  /** Slots of such outputs, numbers as a product leaves them, and these with `scale` times what adapters make of the input. */
  const updated = async (outputs: readonly number[], scale: number, half?: number) => {
    const shape = { label: 'trial', columns: COLUMNS, outputs, maxRank: 6, slots: 2, half };
    const all = outputs.reduce((sum, count) => sum + count, 0);
    const slots = await trial.within(LowRankSlots.create(trial.gpu, shape));
    const update = (module: number, rank: number): LowRankMatrices => ({
      ...{ rank, a: data.numbers(rank * COLUMNS, 0.1), b: data.numbers(outputs[module]! * rank) },
    });
    const adapters = [
      outputs.map((_, module) => update(module, 6 - module)),
      outputs.map((_, module) => (module === 0 && outputs.length > 1 ? undefined : update(module, 3))),
    ];
    adapters.forEach((updates, slot) => {
      slots.write(slot, updates);
    });
    const before = data.numbers(rows * all);
    const after = before.slice();
    OWNERS.forEach((owner, row) => {
      if (owner === undefined) return;
      const own = x.subarray(row * COLUMNS, (row + 1) * COLUMNS);
      let at = row * all;
      adapters[owner]!.forEach((matrices, module) => {
        const added = matrices && lowRankReference(matrices, own);
        added?.forEach((value, i) => {
          after[at + i]! += scale * value;
        });
        at += outputs[module]!;
      });
    });
    const shrunk = await trial.zeros(rows * shrunkNumbers(shape));
    return { slots, shrunk, before, after, all };
  };
  type Updated = Awaited<ReturnType<typeof updated>>;
  const tilesOf = async ({ before, all }: Updated, half: number) => {
    const matrix = { parts: [{ firstRow: 0, rows: all / 2, tiles: Math.ceil(all / 64) }] };
    const stride = tiledNumbers(matrix);
    const placed = new Float32Array(rows * stride);
    before.forEach((value, i) => {
      placed[Math.floor(i / all) * stride + pairedPlace(i % all, half)] = value;
    });
    return { tiles: await trial.buffer(placed), matrix };
  };
  const run = async ({ slots, shrunk }: Updated, finish: LowRankFinish, output: GPUBuffer, more: GPUBuffer[] = []) => {
    const update = await LowRankUpdate.create(trial.gpu, slots, { finish }, { step, input, shrunk, output });
    return trial.run((pass) => update.encode(pass, rows), [output, ...more]);
  };

  const added = await updated([36, 37], 0.5);
  const outputStride = 4 * rowWords(added.all);
  const [sums] = await run(added, { kind: 'add', outputStride, scale: 0.5 }, await trial.rows(added.before, added.all));
  expectNear('number added', sums!, paddedRows(added.after, added.all), TOLERANCE);

  const size = 37;
  const gated = await updated([size, size], 1);
  const [gates] = await run(
    gated,
    { kind: 'gate', outputStride: 4 * rowWords(size), ...(await tilesOf(gated, size)) },
    await trial.zeros(rows * 4 * rowWords(size)),
  );
  const activated = Float32Array.from({ length: rows * size }, (_, i) => {
    const at = Math.floor(i / size) * 2 * size + (i % size);
    return activationReference('silu', gated.after[at]!) * gated.after[at + size]!;
  });
  expectNear('number gated', gates!, paddedRows(activated, size), TOLERANCE);

  await tryRotated(trial, rows, async ({ table, kv, output, half }) => {
    const { heads, kvHeads, headSize } = HEADS;
    const heads2 = [heads, kvHeads, kvHeads].map((count) => count * headSize);
    const turned = await updated(heads2, 1, half);
    const finish = { kind: 'rotate', ...HEADS, table, kv, ...(await tilesOf(turned, half)) } as const;
    return { sums: turned.after, results: await run(turned, finish, output, [kv]) };
  });
}

interface RotatedBuffers {
  readonly table: GPUBuffer;
  readonly kv: GPUBuffer;
  readonly output: GPUBuffer;
  readonly half: number;
}

/** `run` leaves query and kv of sums [rows, all heads]; rows are in blocks 0, 0, 1, 2, 3 at positions 0, 1, 0, 0, 0. */
async function tryRotated(
  trial: KernelTrial,
  rows: number,
  run: (buffers: RotatedBuffers) => Promise<{ sums: Float32Array; results: readonly Float32Array[] }>,
): Promise<void> {
  const { heads, kvHeads, headSize } = HEADS;
  const turns = ropeTable(2, plainTurns(headSize, 10_000));
  const query = new Float32Array(rows * heads * headSize);
  const kvValues = new Float32Array(4 * 2 * kvHeads * 16 * headSize);
  const [table, kv, output] = await Promise.all([
    trial.buffer(turns),
    trial.zeros(kvValues.length),
    trial.zeros(query.length),
  ]);
  const { sums, results } = await run({ table, kv, output, half: headSize / 2 });
  const all = heads + 2 * kvHeads;
  for (let row = 0; row < rows; row++) {
    const [block, position] = [Math.max(0, row - 1), row === 1 ? 1 : 0];
    for (let head = 0; head < all; head++) {
      const at = (row * all + head) * headSize;
      const plain = sums.slice(at, at + headSize);
      const turned = head < heads + kvHeads ? ropeReference(plain, turns, position) : plain;
      if (head < heads) query.set(turned, (row * heads + head) * headSize);
      else kvValues.set(turned, ((block * 2 * kvHeads + head - heads) * 16 + position) * headSize);
    }
  }
  expectNear('number of q', results[0]!, query, TOLERANCE);
  expectNear('number of k and v', results[1]!, kvValues, TOLERANCE);
}
