import { activationReference } from './activation.reference.ts';
import { combineReference } from './combine-experts.reference.ts';
import { CombineExperts } from './combine-experts.ts';
import type { ExpertsNeed } from './kernel-needs.ts';
import { expectNear, type KernelTrial, paddedRows, TrialFailure } from './kernel-trial.ts';
import { squaresOf } from './linear-trial.ts';
import { squaresWords } from './norm-input.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { routeReference } from './route-rows.reference.ts';
import { RouteRows } from './route-rows.ts';
import { rowWords } from './row-words.ts';
import { NO_SEGMENT, SegmentEntries } from './segment-entries.ts';
import { type SegmentedChoice, segmentedChoice } from './segmented-kernel.ts';
import { segmentedReference } from './segmented-linear.reference.ts';
import { SegmentedLinear } from './segmented-linear.ts';
import { SegmentedMatrix } from './segmented-matrix.ts';
import { TrialData } from './trial-data.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';

const TOLERANCE = 1e-4;
const EPSILON = 1e-5;

/** How the kernels of mixtures are tried, by name. */
export function expertTrials({ routes, parts, wider }: ExpertsNeed) {
  return [
    ...[...parts, ...wider].map((part) => ({
      name: `segmented-linear ${part.format} ${part.tiles}x${part.columns}`,
      run: (trial: KernelTrial) => trySegmented(trial, part.format, segmentedChoice(trial.gpu.device, part)),
    })),
    ...routes.map(({ experts, chosen }) => ({
      name: `route-rows ${chosen} of ${experts}`,
      run: (trial: KernelTrial) => tryRoute(trial, experts, chosen),
    })),
    { name: 'combine-experts', run: tryCombine },
  ];
}

/** Normed rows through gate and up of the experts that they name, one by one and in groups. */
async function trySegmented(trial: KernelTrial, format: MatrixFormat, choice: SegmentedChoice): Promise<void> {
  const [segments, size, rows, entriesARow] = [3, 37, 9, 2];
  const inner = isQuantFormat(format) ? 160 : 61;
  const data = new TrialData(inner);
  const matrices = Array.from({ length: segments }, () => data.matrix(2 * size, inner, format));
  const matrix = (await trial.within(
    SegmentedMatrix.load(
      trial.gpu,
      inner,
      matrices.map(({ source }) => [source]),
      true,
    ),
  ))!;
  const x = data.numbers(rows * inner);
  const ones = new Float32Array(inner).fill(1);
  const list = Uint32Array.from({ length: rows * entriesARow }, (_, i) => (i === 5 ? NO_SEGMENT : (i * i) % segments));
  const expected = segmentedReference(
    matrices.map(({ values }) => values),
    2 * size,
    Array.from(list, (segment, entry) => {
      const row = Math.floor(entry / entriesARow);
      const own = x.subarray(row * inner, (row + 1) * inner);
      return {
        segment: segment === NO_SEGMENT ? undefined : segment,
        x: rmsNormReference(own, ones, EPSILON),
      };
    }),
  ).flatMap((sums) =>
    Array.from({ length: size }, (_, i) => (sums ? activationReference('silu', sums[i]!) * sums[size + i]! : 0)),
  );
  const outputStride = 4 * rowWords(size);
  const [step, input, squares] = await Promise.all([
    trial.rowsStep(rows),
    trial.rows(x, inner),
    trial.buffer(squaresOf(x, inner)),
  ]);
  const entries = await SegmentEntries.create(trial.gpu, { segments, entriesARow, maxRows: rows }, step);
  trial.gpu.device.queue.writeBuffer(entries.list, 0, list);
  for (const grouped of [false, true]) {
    const output = await trial.zeros(list.length * outputStride);
    const linear = await SegmentedLinear.create(
      trial.gpu,
      matrix,
      entries,
      { outputStride, input: 'row', finish: { kind: 'gate', activation: 'silu' }, norm: { epsilon: EPSILON, squares } },
      { step, input, output },
      () => choice,
    );
    const [actual] = await trial.run(
      (pass) => {
        entries.group(pass);
        linear.encode(pass, rows, grouped);
      },
      [output],
    );
    const what = `${grouped ? 'grouped ' : ''}number`;
    expectNear(what, actual!, paddedRows(Float32Array.from(expected), size), TOLERANCE);
  }
}

/** Choices and shares, with ties. */
async function tryRoute(trial: KernelTrial, experts: number, chosen: number): Promise<void> {
  const rows = 5;
  const data = new TrialData(experts);
  // Eighths, so that there are ties.
  const logits = data.numbers(rows * experts, 4).map((value) => Math.round(value * 8) / 8);
  const stride = 4 * rowWords(experts);
  for (const normalised of [false, true]) {
    const [step, input, list, shares] = await Promise.all([
      trial.rowsStep(rows),
      trial.rows(logits, experts),
      trial.zeros(rows * chosen),
      trial.zeros(rows * chosen),
    ]);
    const shape = { experts, chosen, normalised, stride };
    const route = await RouteRows.create(trial.gpu, shape, { step, logits: input, list, shares });
    const [chosenBits, actual] = await trial.run((pass) => route.encode(pass, rows), [list, shares]);
    const routes = Array.from({ length: rows }, (_, row) =>
      routeReference(logits.subarray(row * experts, (row + 1) * experts), chosen, normalised),
    );
    const should = routes.flatMap((one) => one.experts);
    const is = new Uint32Array(chosenBits!.buffer);
    should.forEach((expert, i) => {
      if (is[i] !== expert) throw new TrialFailure(`choice ${i} is expert ${is[i]}, should be ${expert}`);
    });
    const expected = Float32Array.from(routes.flatMap((one) => one.shares));
    expectNear('share', actual!, expected, TOLERANCE);
  }
}

/** What experts made, added to the stream and left for the next norm. */
async function tryCombine(trial: KernelTrial): Promise<void> {
  const [rows, chosen, columns] = [3, 2, 71];
  const data = new TrialData(columns);
  const shares = data.numbers(rows * chosen);
  const made = data.numbers(rows * chosen * columns);
  const before = data.numbers(rows * columns);
  const gain = data.numbers(columns);
  const scale = 0.5;
  const [step, sharesBuffer, madeBuffer, output, gainBuffer, scaled, squares] = await Promise.all([
    trial.rowsStep(rows),
    trial.buffer(shares),
    trial.rows(made, columns),
    trial.rows(before, columns),
    trial.rows(gain, columns),
    trial.zeros(rows * 4 * rowWords(columns)),
    trial.zeros(rows * 4 * squaresWords(columns)),
  ]);
  const combine = await CombineExperts.create(
    trial.gpu,
    { columns, chosen },
    { kind: 'emit', scale, gain: gainBuffer, scaled, squares },
    { step, shares: sharesBuffer, made: madeBuffer, output },
  );
  const results = await trial.run((pass) => combine.encode(pass, rows), [output, scaled, squares]);
  const sums = Array.from({ length: rows }, (_, row) => {
    const own = [...shares.subarray(row * chosen, (row + 1) * chosen)];
    return [...combineReference(own, made.subarray(row * chosen * columns, (row + 1) * chosen * columns))];
  }).flat();
  const expected = before.map((value, i) => value + scale * sums[i]!);
  expectNear('number', results[0]!, paddedRows(expected, columns), TOLERANCE);
  const ofNorm = expected.map((value, i) => value * gain[i % columns]!);
  expectNear('scaled number', results[1]!, paddedRows(ofNorm, columns), TOLERANCE);
  expectNear('sum of squares', results[2]!, squaresOf(expected, columns), TOLERANCE);
}
