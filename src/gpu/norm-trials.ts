import { AddNormed } from './add-normed.ts';
import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { layerNormReference } from './layer-norm.reference.ts';
import { LayerNorm } from './layer-norm.ts';
import { squaresOf } from './linear-trial.ts';
import { NormInput, squaresWords } from './norm-input.ts';
import type { LogitsEntry } from './pack-step.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { RmsNorm } from './rms-norm.ts';
import { rowWords } from './row-words.ts';
import { TrialData } from './trial-data.ts';

const TOLERANCE = 1e-4;
const EPSILON = 1e-5;

/** A greedy row. */
export const GREEDY: Omit<LogitsEntry, 'row' | 'slot'> = {
  ...{ writesSlot: false, sampled: false, logprob: false, outputPosition: 0 },
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0, top: 0, topAt: 0 },
};

/** The norm before the head: of the rows whose logits are wanted. */
export async function tryFinalNorm(trial: KernelTrial, kind: 'rms' | 'layer'): Promise<void> {
  const [columns, rows, wanted] = [259, 4, [1, 3]] as const;
  const data = new TrialData(columns);
  const [x, weights, biases] = [data.numbers(rows * columns, 3), data.numbers(columns), data.numbers(columns)];
  const { buffer: step } = await trial.step(
    [{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable: [0] }],
    wanted.map((row) => ({ ...GREEDY, slot: 0, row })),
  );
  const [input, weight, bias, output] = await Promise.all([
    trial.rows(x, columns),
    trial.rows(weights, columns),
    trial.rows(biases, columns),
    trial.zeros(wanted.length * 4 * rowWords(columns)),
  ]);
  const shape = { columns, epsilon: EPSILON, of: 'logits' } as const;
  const norm =
    kind === 'rms'
      ? await RmsNorm.create(trial.gpu, shape, { step, input, weight, output })
      : await LayerNorm.create(trial.gpu, shape, { step, input, weight, bias, output });
  const [actual] = await trial.run((pass) => norm.encode(pass, wanted.length), [output]);
  const expected = wanted.flatMap((row) => {
    const own = x.slice(row * columns, (row + 1) * columns);
    return [
      ...(kind === 'rms' ? rmsNormReference(own, weights, EPSILON) : layerNormReference(own, weights, biases, EPSILON)),
    ];
  });
  expectNear('number', actual!, paddedRows(Float32Array.from(expected), columns), TOLERANCE);
}

/** What a product of normed rows asks for, of rows that no product left so. */
export async function tryNormInput(trial: KernelTrial): Promise<void> {
  const [rows, columns] = [3, 131];
  const data = new TrialData(columns);
  const [x, gains] = [data.numbers(rows * columns), data.numbers(columns)];
  const [step, input, gain, scaled, squares] = await Promise.all([
    trial.rowsStep(rows),
    trial.rows(x, columns),
    trial.rows(gains, columns),
    trial.zeros(rows * 4 * rowWords(columns)),
    trial.zeros(rows * 4 * squaresWords(columns)),
  ]);
  const norm = await NormInput.create(trial.gpu, columns, { step, input, gain, scaled, squares });
  const results = await trial.run((pass) => norm.encode(pass, rows), [scaled, squares]);
  const expected = x.map((value, i) => value * gains[i % columns]!);
  expectNear('scaled number', results[0]!, paddedRows(expected, columns), TOLERANCE);
  expectNear('sum of squares', results[1]!, squaresOf(x, columns), TOLERANCE);
}

/** A normed branch that is added, with what the next norm's product asks for. */
export async function tryAddNormed(trial: KernelTrial): Promise<void> {
  const [rows, columns, scale] = [3, 131, 0.5];
  const data = new TrialData(columns);
  const [x, y] = [data.numbers(rows * columns), data.numbers(rows * columns)];
  const [weights, gains] = [data.numbers(columns), data.numbers(columns)];
  const [step, branch, weight, hidden, gain, scaled, squares] = await Promise.all([
    trial.rowsStep(rows),
    trial.rows(x, columns),
    trial.rows(weights, columns),
    trial.rows(y, columns),
    trial.rows(gains, columns),
    trial.zeros(rows * 4 * rowWords(columns)),
    trial.zeros(rows * 4 * squaresWords(columns)),
  ]);
  const next = { gain, scaled, squares };
  const shape = { columns, epsilon: EPSILON, scale };
  const add = await AddNormed.create(trial.gpu, shape, { step, branch, weight, hidden, next });
  const results = await trial.run((pass) => add.encode(pass, rows), [hidden, scaled, squares]);
  const sums = addedRows(x, y, weights, scale);
  expectNear('number', results[0]!, paddedRows(sums, columns), TOLERANCE);
  const expected = sums.map((value, i) => value * gains[i % columns]!);
  expectNear('scaled number', results[1]!, paddedRows(expected, columns), TOLERANCE);
  expectNear('sum of squares', results[2]!, squaresOf(sums, columns), TOLERANCE);
}

/** Rows of `y`, each with `scale` times the norm of the same row of `x` added. */
function addedRows(x: Float32Array, y: Float32Array, weights: Float32Array, scale: number): Float32Array {
  const columns = weights.length;
  const sums = Float32Array.from(y);
  for (let at = 0; at < x.length; at += columns) {
    const normed = rmsNormReference(x.slice(at, at + columns), weights, EPSILON);
    normed.forEach((value, i) => {
      sums[at + i]! += scale * value;
    });
  }
  return sums;
}
