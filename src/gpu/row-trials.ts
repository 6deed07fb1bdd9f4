import { ActivateRows } from './activate-rows.ts';
import { activationReference } from './activation.reference.ts';
import { ACTIVATIONS } from './activation.ts';
import { embeddingReference } from './embedding.reference.ts';
import { Embedding, type EmbeddingOf } from './embedding.ts';
import { tryPool } from './encoder-trials.ts';
import type { RowKernel } from './kernel-needs.ts';
import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { squaresOf } from './linear-trial.ts';
import { tryLowRank } from './low-rank-trial.ts';
import { squaresWords } from './norm-input.ts';
import { tryAddNormed, tryFinalNorm, tryNormInput } from './norm-trials.ts';
import { qkNormReference } from './qk-norm.reference.ts';
import { ropeReference } from './rope.reference.ts';
import { type QkNorm, Rope, type RopeShape } from './rope.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { TrialData } from './trial-data.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';
import { WeightMatrix } from './weight-matrix.ts';

const TOLERANCE = 1e-4;

/** Rows by given ids and by a slot's, with what the first norm's product asks for; or by positions. */
export async function tryEmbedding(trial: KernelTrial, format: MatrixFormat, of: EmbeddingOf): Promise<void> {
  const columns = isQuantFormat(format) ? 96 : 37;
  const data = new TrialData(columns);
  const { source, values } = data.matrix(71, columns, format);
  const matrix = await trial.within(WeightMatrix.load(trial.gpu, columns, [source]));
  const ids = [3, 70, 64, 0, 9];
  const { buffer: step } = await trial.step([
    { slot: 1, tokens: ids.slice(0, 4), startPosition: 0, blockTable: [0] },
    { slot: 2, tokens: 'slot', startPosition: 5, blockTable: [1] },
  ]);
  const gains = data.numbers(columns);
  const [lastIds, output, gain, scaled, squares] = await Promise.all([
    trial.buffer(Uint32Array.of(0, 0, ids[4]!, 0)),
    trial.zeros(ids.length * 4 * rowWords(columns)),
    trial.rows(gains, columns),
    trial.zeros(ids.length * 4 * rowWords(columns)),
    trial.zeros(ids.length * 4 * squaresWords(columns)),
  ]);
  const buffers = { step, lastIds, output };
  const scale = 1.5;
  const embedding = await Embedding.create(
    trial.gpu,
    matrix,
    of === 'tokens with norm' ? { ...buffers, norm: { gain, scaled, squares } } : buffers,
    { scale, positions: of === 'positions' },
  );
  const results = await trial.run((pass) => embedding.encode(pass, ids.length), [output, scaled, squares]);
  const named = of === 'positions' ? [0, 1, 2, 3, 5] : ids;
  const rows = Float32Array.from(named.flatMap((id) => [...embeddingReference(values, columns, id)])).map(
    (value) => value * scale,
  );
  const scaledRows = rows.map((value, i) => value * gains[i % columns]!);
  expectNear('number', results[0]!, paddedRows(rows, columns), TOLERANCE);
  if (of !== 'tokens with norm') return;
  expectNear('scaled number', results[1]!, paddedRows(scaledRows, columns), TOLERANCE);
  expectNear('sum of squares', results[2]!, squaresOf(rows, columns), TOLERANCE);
}

/** Rotary embedding, and the write of K and V, of rows that no product rotated: biased, normed and in part. */
async function tryRope(
  trial: KernelTrial,
  { heads, kvHeads, headSize, kvFormat }: RopeShape,
  norm?: QkNorm,
): Promise<void> {
  const data = new TrialData(headSize);
  const rows = 3;
  const epsilon = 1e-5;
  const rotated = headSize % 8 === 0 ? headSize / 2 : headSize;
  const all = heads + 2 * kvHeads;
  const x = data.numbers(rows * all * headSize);
  const bias = data.numbers(all * headSize);
  const gains = data.numbers((norm === 'row' ? heads + kvHeads : 2) * headSize);
  const turns = ropeTable(rows, plainTurns(rotated, 10_000));
  const query = new Float32Array(rows * heads * headSize);
  const kvValues = new Float32Array(2 * kvHeads * 16 * headSize);
  for (let row = 0; row < rows; row++) {
    const own = x.slice(row * all * headSize, (row + 1) * all * headSize).map((value, i) => value + bias[i]!);
    const shape = { heads, kvHeads, headSize };
    const normed = norm ? qkNormReference(own, gains, shape, norm, epsilon) : own;
    for (let head = 0; head < all; head++) {
      const plain = normed.slice(head * headSize, (head + 1) * headSize);
      const turned = head < heads + kvHeads ? ropeReference(plain, turns, row, rotated) : plain;
      if (head < heads) query.set(turned, (row * heads + head) * headSize);
      else kvValues.set(turned, ((head - heads) * 16 + row) * headSize);
    }
  }
  const [step, qkv, table, more, queryBuffer, kv] = await Promise.all([
    trial.rowsStep(rows),
    trial.buffer(x),
    trial.buffer(turns),
    trial.buffer(Float32Array.of(...bias, ...gains)),
    trial.zeros(query.length),
    trial.zeros(kvValues.length),
  ]);
  const qkNorm = norm && { of: norm, epsilon };
  const rope = await Rope.create(
    trial.gpu,
    { heads, kvHeads, headSize, kvFormat, rotated, biased: true, qkNorm },
    { step, qkv, table, more, query: queryBuffer, kv },
  );
  const results = await trial.run((pass) => rope.encode(pass, rows), [queryBuffer, kv]);
  expectNear('number of q', results[0]!, query, TOLERANCE);
  expectNear('number of k and v', results[1]!, kvValues, TOLERANCE);
}

/** Each activation, gated and not, of rows that no product finished so. */
async function tryActivateRows(trial: KernelTrial): Promise<void> {
  const [rows, columns] = [3, 37];
  const data = new TrialData(columns);
  for (const activation of ACTIVATIONS) {
    for (const gated of [false, true]) {
      const inputs = gated ? 2 * columns : columns;
      const [x, bias] = [data.numbers(rows * inputs, 4), data.numbers(inputs)];
      const [step, input, biasBuffer, output] = await Promise.all([
        trial.rowsStep(rows),
        trial.rows(x, inputs),
        trial.rows(bias, inputs),
        trial.zeros(rows * 4 * rowWords(columns)),
      ]);
      const shape = { columns, activation, gated };
      const activate = await ActivateRows.create(trial.gpu, shape, { step, input, bias: biasBuffer, output });
      const [actual] = await trial.run((pass) => activate.encode(pass, rows), [output]);
      const expected = Float32Array.from({ length: rows * columns }, (_, i) => {
        const at = (column: number) => x[Math.floor(i / columns) * inputs + column]! + bias[column]!;
        const column = i % columns;
        return activationReference(activation, at(column)) * (gated ? at(columns + column) : 1);
      });
      expectNear(`${activation} number`, actual!, paddedRows(expected, columns), TOLERANCE);
    }
  }
}

/** How each kernel is tried against its reference, where the model has attention of a shape. */
export const ROW_TRIALS: Readonly<Record<RowKernel, (trial: KernelTrial, attention: RopeShape) => Promise<void>>> = {
  'rms-norm': (trial) => tryFinalNorm(trial, 'rms'),
  'layer-norm': (trial) => tryFinalNorm(trial, 'layer'),
  'norm-input': tryNormInput,
  'add-normed': tryAddNormed,
  rope: (trial, attention) => tryRope(trial, attention),
  'rope head norm': (trial, attention) => tryRope(trial, attention, 'head'),
  'rope row norm': (trial, attention) => tryRope(trial, attention, 'row'),
  'activate-rows': tryActivateRows,
  'low-rank': tryLowRank,
  pool: tryPool,
};
