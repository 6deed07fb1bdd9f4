import { activationReference } from './activation.reference.ts';
import type { Precision } from './kernel-choices.ts';
import { formName } from './kernel-needs.ts';
import { expectNear, type KernelTrial, paddedRows } from './kernel-trial.ts';
import { linearReference } from './linear.reference.ts';
import { Linear, type LinearFinish, type LinearShape } from './linear.ts';
import { type LinearChoice, MATVEC_COLUMNS } from './linear-choice.ts';
import { isFast, type LinearForm, type LinearVariant, variantName } from './linear-variant.ts';
import { squaresWords } from './norm-input.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { ropeReference } from './rope.reference.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';
import { TrialData } from './trial-data.ts';
import { isQuantFormat, type MatrixFormat, TILE_ROWS } from './weight-format.ts';
import { WeightMatrix } from './weight-matrix.ts';

/** What is right, beside what numbers are: of precision fast products are rounded to halves or to 8 bits. */
const TOLERANCES: Readonly<Record<Precision, number>> = { exact: 1e-4, fast: 0.1 };

const EPSILON = 1e-5;
/** Heads of q and of k, and a head's numbers, of a matrix whose finish is rotate: two tiles, the second not full. */
const ROTATED = { heads: 5, kvHeads: 2, headSize: 8 } as const;
/** The same for gate: pairs. */
const GATED = 37;
const ROWS = 71;

/** A variant of a product and what it is used for. */
export interface LinearUse {
  readonly format: MatrixFormat;
  readonly form: LinearForm;
  readonly variant: LinearVariant;
  /** Of its choice. */
  readonly splits: number;
  /** Columns that it is given: a few at most as a matrix-vector kernel, more as a matmul. */
  readonly columns: readonly number[];
}

export function linearUseName({ format, form, variant, splits }: Omit<LinearUse, 'columns'>): string {
  const name = `linear ${formName(form)} ${format} ${variantName(variant)}`;
  return variant.splitThreads === splits ? name : `${name} of ${splits} splits`;
}

/** The variants of a choice, each with the least and the most columns that it is used for. */
export function linearUses(format: MatrixFormat, form: LinearForm, choice: LinearChoice): LinearUse[] {
  const uses = new Map<string, LinearUse>();
  const columnsOf = [...choice.matvec.map((variant, i) => ({ variant, columns: i + 1 }))];
  // More than a workgroup of a matmul takes, whatever its shape.
  const { matmul } = choice;
  columnsOf.push({
    variant: matmul,
    columns: Math.max(MATVEC_COLUMNS.length, Math.min(64, matmul.columns * matmul.columnThreads)) + 3,
  });
  for (const { variant, columns } of columnsOf) {
    const use = { format, form, variant, splits: choice.splits, columns: [columns] };
    const name = linearUseName(use);
    const first = uses.get(name)?.columns[0];
    uses.set(name, first === undefined ? use : { ...use, columns: [first, columns] });
  }
  return [...uses.values()];
}

/** Runs a variant on a small matrix. Rejects with TrialFailure where its numbers are wrong. */
export async function tryLinear(trial: KernelTrial, use: LinearUse): Promise<void> {
  const { format, form, variant, splits } = use;
  const paired = form.finish === 'gate' || form.finish === 'rotate';
  const inner = isQuantFormat(format) ? 160 : 61;
  const data = new TrialData(inner);
  const heads = ROTATED.heads + 2 * ROTATED.kvHeads;
  const rows = form.finish === 'rotate' ? heads * ROTATED.headSize : form.finish === 'gate' ? 2 * GATED : ROWS;
  const { source, values } = data.matrix(rows, inner, format);
  const half = form.finish === 'rotate' ? ROTATED.headSize / 2 : GATED;
  const { gpu } = trial;
  const matrix = await trial.within(
    paired ? WeightMatrix.loadPaired(gpu, inner, [source], half) : WeightMatrix.load(gpu, inner, [source]),
  );
  const choose = () => ({ splits, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant });
  for (const columns of use.columns) {
    const product = await arrange(trial, data, form, { values, rows, inner, columns });
    const linear = await Linear.create(gpu, matrix!, product.shape, product.buffers, choose);
    const results = await trial.run((pass) => linear.encode(pass, columns), product.results);
    product.expected.forEach((expected, i) => {
      expectNear(
        `of ${columns} columns number`,
        results[i]!,
        expected,
        isFast(variant.path) ? TOLERANCES.fast : TOLERANCES.exact,
      );
    });
  }
}

interface Sizes {
  readonly values: Float32Array;
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
}

/** Buffers of a product, and what some of them should hold afterwards. */
interface Arranged {
  readonly shape: LinearShape;
  readonly buffers: { readonly step: GPUBuffer; readonly input: GPUBuffer; readonly output: GPUBuffer };
  readonly results: readonly GPUBuffer[];
  readonly expected: readonly Float32Array[];
}

async function arrange(trial: KernelTrial, data: TrialData, form: LinearForm, sizes: Sizes): Promise<Arranged> {
  const { values, rows, inner, columns } = sizes;
  const x = data.numbers(columns * inner);
  const gain = data.numbers(inner);
  const column = (c: number) => x.subarray(c * inner, (c + 1) * inner);
  const sums = Array.from({ length: columns }, (_, c) =>
    linearReference(values, rows, form.normed ? rmsNormReference(column(c), gain, EPSILON) : column(c)),
  );
  const scaled = x.map((value, i) => value * gain[i % inner]!);
  const [step, input, squares] = await Promise.all([
    trial.rowsStep(columns),
    trial.rows(form.normed ? scaled : x, inner),
    form.normed ? trial.buffer(squaresOf(x, inner)) : undefined,
  ]);
  const norm = squares ? { norm: { epsilon: EPSILON, squares } } : {};
  const shapeOf = (outputColumns: number, finish: LinearFinish): LinearShape => ({
    outputStride: 4 * rowWords(outputColumns),
    countWord: STEP_HEADER.rows,
    finish,
    ...norm,
  });
  const padded = (perColumn: readonly Float32Array[]) =>
    paddedRows(Float32Array.from(perColumn.flatMap((one) => [...one])), perColumn[0]!.length);

  switch (form.finish) {
    case 'store': {
      const [bias, scale, cap] = [data.numbers(rows), 0.75, 2];
      const [output, biasBuffer] = await Promise.all([
        trial.zeros(columns * 4 * rowWords(rows)),
        trial.rows(bias, rows),
      ]);
      const capped = (sum: number, row: number) => cap * Math.tanh((scale * (sum + bias[row]!)) / cap);
      const expected = [padded(sums.map((one) => one.map(capped)))];
      const shape = shapeOf(rows, { kind: 'store', bias: biasBuffer, scale, cap });
      return { shape, buffers: { step, input, output }, results: [output], expected };
    }
    case 'gate': {
      const output = await trial.zeros(columns * 4 * rowWords(rows / 2));
      // What SiLU takes, and the cube.
      const activation = 'gelu-tanh';
      const gated = (one: Float32Array) =>
        one.slice(0, rows / 2).map((gate, i) => activationReference(activation, gate) * one[rows / 2 + i]!);
      const expected = [padded(sums.map(gated))];
      const shape = shapeOf(rows / 2, { kind: 'gate', activation });
      return { shape, buffers: { step, input, output }, results: [output], expected };
    }
    case 'add':
    case 'emit': {
      const residual = data.numbers(columns * rows);
      const nextGain = data.numbers(rows);
      const scale = 0.75;
      // An emitted product's bias would have no place: read5 is the gain.
      const bias = form.finish === 'add' ? data.numbers(rows) : new Float32Array(rows);
      const total = sums.map((sum, c) =>
        sum.map((value, row) => scale * (value + bias[row]!) + residual[c * rows + row]!),
      );
      const all = Float32Array.from(total.flatMap((one) => [...one]));
      const output = await trial.rows(residual, rows);
      const buffers = { step, input, output };
      if (form.finish === 'add') {
        const shape = shapeOf(rows, { kind: 'add', scale, bias: await trial.rows(bias, rows) });
        return { shape, buffers, results: [output], expected: [padded(total)] };
      }
      const [gainBuffer, scaledOut, squaresOut] = await Promise.all([
        trial.rows(nextGain, rows),
        trial.zeros(columns * 4 * rowWords(rows)),
        trial.zeros(columns * 4 * squaresWords(rows)),
      ]);
      return {
        shape: shapeOf(rows, { kind: 'emit', scale, gain: gainBuffer, scaled: scaledOut, squares: squaresOut }),
        buffers,
        results: [output, scaledOut, squaresOut],
        expected: [
          padded(total),
          padded(total.map((one) => one.map((value, row) => value * nextGain[row]!))),
          squaresOf(all, rows),
        ],
      };
    }
    case 'rotate':
      return arrangeRotate(trial, sums, (finish) => shapeOf(ROTATED.heads * ROTATED.headSize, finish), { step, input });
  }
}

/** Query heads are rotated, so are keys, and keys and values lie in blocks of 16 rows. */
async function arrangeRotate(
  trial: KernelTrial,
  sums: readonly Float32Array[],
  shapeOf: (finish: LinearFinish) => LinearShape,
  inputs: { readonly step: GPUBuffer; readonly input: GPUBuffer },
): Promise<Arranged> {
  const { heads, kvHeads, headSize } = ROTATED;
  const columns = sums.length;
  const blocks = Math.ceil(columns / 16);
  const turns = ropeTable(columns, plainTurns(headSize, 10_000));
  const query = new Float32Array(columns * heads * headSize);
  const kvValues = new Float32Array(blocks * 2 * kvHeads * 16 * headSize);
  sums.forEach((sum, row) => {
    for (let head = 0; head < heads + 2 * kvHeads; head++) {
      const plain = sum.slice(head * headSize, (head + 1) * headSize);
      const rotated = head < heads + kvHeads ? ropeReference(plain, turns, row) : plain;
      const slot = (Math.floor(row / 16) * 2 * kvHeads + head - heads) * 16 + (row % 16);
      if (head < heads) query.set(rotated, (row * heads + head) * headSize);
      else kvValues.set(rotated, slot * headSize);
    }
  });
  const [table, kv, output] = await Promise.all([
    trial.buffer(turns),
    trial.zeros(kvValues.length),
    trial.zeros(query.length),
  ]);
  return {
    shape: shapeOf({ kind: 'rotate', heads, kvHeads, headSize, table, kv }),
    buffers: { ...inputs, output },
    results: [output, kv],
    expected: [query, kvValues],
  };
}

/** Sums of squares of rows of `columns`, as shaders/norm-input.wgsl lays them out. */
export function squaresOf(rows: Float32Array, columns: number): Float32Array<ArrayBuffer> {
  const stride = 4 * squaresWords(columns);
  const squares = new Float32Array((rows.length / columns) * stride);
  rows.forEach((value, i) => {
    const [row, k] = [Math.floor(i / columns), i % columns];
    squares[row * stride + Math.floor(k / TILE_ROWS) * 8 + (k % 8)]! += value * value;
  });
  return squares;
}
