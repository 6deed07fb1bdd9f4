import { encoderEmbeddingReference } from './encoder-embedding.reference.ts';
import { EncoderEmbedding } from './encoder-embedding.ts';
import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { poolReference } from './pool.reference.ts';
import { Pool } from './pool.ts';
import { rowWords } from './row-words.ts';
import { TrialData } from './trial-data.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';
import { WeightMatrix } from './weight-matrix.ts';

const TOLERANCE = 1e-4;

/** Ids with their places and types, of two tiles of ids. */
export async function tryEncoderEmbedding(trial: KernelTrial, format: MatrixFormat): Promise<void> {
  const columns = isQuantFormat(format) ? 96 : 37;
  const data = new TrialData(columns);
  const { source, values } = data.matrix(71, columns, format);
  const matrix = await trial.within(WeightMatrix.load(trial.gpu, columns, [source]));
  const [types, positions] = [data.numbers(2 * columns), data.numbers(4 * columns)];
  const named = [
    { id: 0, position: 3, type: 1 },
    { id: 70, position: 0, type: 0 },
    { id: 64, position: 2, type: 1 },
  ];
  const [step, rows, typeBuffer, positionBuffer, output] = await Promise.all([
    trial.rowsStep(named.length),
    trial.buffer(Uint32Array.from(named.flatMap(({ id, position, type }) => [id, position, type, 0]))),
    trial.rows(types, columns),
    trial.rows(positions, columns),
    trial.zeros(named.length * 4 * rowWords(columns)),
  ]);
  const buffers = { step, rows, types: typeBuffer, positions: positionBuffer, output };
  const embedding = await EncoderEmbedding.create(trial.gpu, matrix, buffers);
  const [actual] = await trial.run((pass) => embedding.encode(pass, named.length), [output]);
  const expected = named.flatMap((row) => [
    ...encoderEmbeddingReference({ words: values, types, positions }, columns, row),
  ]);
  expectNear('number', actual!, paddedRows(Float32Array.from(expected), columns), TOLERANCE);
}

/** Every way of pooling, of sequences of few and of many rows. */
export async function tryPool(trial: KernelTrial): Promise<void> {
  const [columns, lengths] = [37, [1, 11, 4]] as const;
  const data = new TrialData(columns);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const x = data.numbers(total * columns, 2);
  const sequences = lengths.map((length, slot) => ({
    ...{ slot, tokens: new Uint32Array(length), startPosition: 0, blockTable: [slot] },
  }));
  const [{ buffer: step }, input, output] = await Promise.all([
    trial.step(sequences, []),
    trial.rows(x, columns),
    trial.zeros(lengths.length * 4 * rowWords(columns)),
  ]);
  for (const kind of ['mean', 'cls', 'last', 'max'] as const) {
    const pool = await Pool.create(trial.gpu, columns, kind, { step, input, output });
    const [actual] = await trial.run((pass) => pool.encode(pass, lengths.length), [output]);
    let row = 0;
    const expected = lengths.flatMap((length) => {
      const own = x.slice(row * columns, (row + length) * columns);
      row += length;
      return [...poolReference(own, columns, kind)];
    });
    expectNear(`${kind} number`, actual!, paddedRows(Float32Array.from(expected), columns), TOLERANCE);
  }
}
