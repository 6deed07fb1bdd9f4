import { embeddingReference } from './embedding.reference.ts';
import { Embedding } from './embedding.ts';
import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { squaresOf } from './linear-trial.ts';
import { squaresWords } from './norm-input.ts';
import type { LogitsEntry } from './pack-step.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { RmsNorm } from './rms-norm.ts';
import { ropeReference } from './rope.reference.ts';
import { Rope, type RopeShape } from './rope.ts';
import { ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { swigluReference } from './swiglu.reference.ts';
import { Swiglu } from './swiglu.ts';
import { TrialData } from './trial-data.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';
import { WeightMatrix } from './weight-matrix.ts';

const TOLERANCE = 1e-4;

/** A greedy row. */
export const GREEDY: Omit<LogitsEntry, 'row' | 'slot'> = {
  ...{ writesSlot: false, sampled: false, logprob: false, outputPosition: 0 },
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0, top: 0, topAt: 0 },
};

/** Rows by given ids and by a slot's, with what the first norm's product asks for. */
export async function tryEmbedding(trial: KernelTrial, format: MatrixFormat): Promise<void> {
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
  const embedding = await Embedding.create(trial.gpu, matrix, {
    ...{ step, lastIds, output },
    norm: { gain, scaled, squares },
  });
  const results = await trial.run((pass) => embedding.encode(pass, ids.length), [output, scaled, squares]);
  const rows = Float32Array.from(ids.flatMap((id) => [...embeddingReference(values, columns, id)]));
  const scaledRows = rows.map((value, i) => value * gains[i % columns]!);
  expectNear('number', results[0]!, paddedRows(rows, columns), TOLERANCE);
  expectNear('scaled number', results[1]!, paddedRows(scaledRows, columns), TOLERANCE);
  expectNear('sum of squares', results[2]!, squaresOf(rows, columns), TOLERANCE);
}

/** The norm before the head: of the rows whose logits are wanted. */
export async function tryNorm(trial: KernelTrial): Promise<void> {
  const [columns, rows, wanted] = [259, 4, [1, 3]] as const;
  const data = new TrialData(columns);
  const [x, weights] = [data.numbers(rows * columns, 3), data.numbers(columns)];
  const { buffer: step } = await trial.step(
    [{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable: [0] }],
    wanted.map((row) => ({ ...GREEDY, slot: 0, row })),
  );
  const [input, weight, output] = await Promise.all([
    trial.rows(x, columns),
    trial.rows(weights, columns),
    trial.zeros(wanted.length * 4 * rowWords(columns)),
  ]);
  const shape = { columns, epsilon: 1e-5, of: 'logits' } as const;
  const norm = await RmsNorm.create(trial.gpu, shape, { step, input, weight, output });
  const [actual] = await trial.run((pass) => norm.encode(pass, wanted.length), [output]);
  const expected = wanted.flatMap((row) => [
    ...rmsNormReference(x.slice(row * columns, (row + 1) * columns), weights, 1e-5),
  ]);
  expectNear('number', actual!, paddedRows(Float32Array.from(expected), columns), TOLERANCE);
}

/** Rotary embedding, and the write of K and V, of rows that no product rotated. */
export async function tryRope(trial: KernelTrial, shape: RopeShape): Promise<void> {
  const { heads, kvHeads, headSize } = shape;
  const data = new TrialData(headSize);
  const rows = 3;
  const all = heads + 2 * kvHeads;
  const x = data.numbers(rows * all * headSize);
  const turns = ropeTable(rows, headSize, 10_000);
  const query = new Float32Array(rows * heads * headSize);
  const kvValues = new Float32Array(2 * kvHeads * 16 * headSize);
  for (let i = 0; i < rows * all; i++) {
    const [row, head] = [Math.floor(i / all), i % all];
    const plain = x.slice(i * headSize, (i + 1) * headSize);
    const rotated = head < heads + kvHeads ? ropeReference(plain, turns, row) : plain;
    if (head < heads) query.set(rotated, (row * heads + head) * headSize);
    else kvValues.set(rotated, ((head - heads) * 16 + row) * headSize);
  }
  const [step, qkv, table, queryBuffer, kv] = await Promise.all([
    trial.rowsStep(rows),
    trial.buffer(x),
    trial.buffer(turns),
    trial.zeros(query.length),
    trial.zeros(kvValues.length),
  ]);
  const rope = await Rope.create(trial.gpu, shape, { step, qkv, table, query: queryBuffer, kv });
  const results = await trial.run((pass) => rope.encode(pass, rows), [queryBuffer, kv]);
  expectNear('number of q', results[0]!, query, TOLERANCE);
  expectNear('number of k and v', results[1]!, kvValues, TOLERANCE);
}

/** SiLU of gate times up, of rows that no product finished so. */
export async function trySwiglu(trial: KernelTrial): Promise<void> {
  const [rows, columns] = [3, 37];
  const x = new TrialData(columns).numbers(rows * 2 * columns, 4);
  const [step, input, output] = await Promise.all([
    trial.rowsStep(rows),
    trial.rows(x, 2 * columns),
    trial.zeros(rows * 4 * rowWords(columns)),
  ]);
  const swiglu = await Swiglu.create(trial.gpu, columns, { step, input, output });
  const [actual] = await trial.run((pass) => swiglu.encode(pass, rows), [output]);
  const expected = Array.from({ length: rows }, (_, row) => [
    ...swigluReference(x.slice(row * 2 * columns, (row + 1) * 2 * columns)),
  ]);
  expectNear('number', actual!, paddedRows(Float32Array.from(expected.flat()), columns), TOLERANCE);
}
