import type { Precision } from './kernel-choices.ts';
import { defaultChoice, type LinearChoice, type LinearPartShape, MATVEC_COLUMNS } from './linear-choice.ts';
import type { LinearFeatures } from './linear-features.ts';
import { checkVariant, type LinearForm, type LinearPath, type LinearVariant } from './linear-variant.ts';
import { isQuantFormat, type MatrixFormat, wordsOfRow } from './weight-format.ts';

/**
 * What may win on a device with `features` (linearFeatures(device)), for a part of a matrix: what is taken without a tuner
 * first. Exact choices differ in the order of their sums, so choose before anything is computed; with precision fast
 * there are also those whose products are rounded.
 */
export function candidates(
  part: LinearPartShape,
  form: LinearForm,
  features: LinearFeatures,
  precision: Precision,
): LinearChoice[] {
  const walk = defaultChoice(part, form, features.has('subgroups'));
  // Threads of a CPU want few workgroups and no barriers, and compile for half a second a kernel.
  if (features.software) return [walk];
  const many = gpuChoice(part, form, 'plain', 16, [8, 4, 8, 8]);
  const choices = [many, gpuChoice(part, form, 'plain', 8, [4, 4, 16, 8]), walk];
  if (precision === 'fast') {
    if (features.has('shader-f16')) choices.push(gpuChoice(part, form, 'f16', 8, [8, 4, 8, 8]));
    if (features.packedDot && isQuantFormat(part.format)) choices.push(gpuChoice(part, form, 'dot', 8, [8, 4, 8, 8]));
    const matmul = matrixVariant(part, form, features);
    if (matmul) choices.push({ ...many, matmul });
  }
  return choices;
}

/** Rows, columns, threads along rows and along columns of a matmul. */
type Tile = readonly [number, number, number, number];

/**
 * For thousands of threads: few rows a thread, and K over threads of the workgroup; many columns in workgroup memory, a
 * tile of rows by some of columns in registers.
 */
function gpuChoice(
  part: LinearPartShape,
  form: LinearForm,
  path: LinearPath,
  most: number,
  [rows, columns, threads, columnThreads]: Tile,
): LinearChoice {
  const emits = form.finish === 'emit';
  const words = wordsOfRow(part.format, part.columns);
  // Each split has two words at least.
  const splits = Math.max(1, Math.min(most, 2 ** Math.floor(Math.log2(words / 2))));
  const rowThreads = emits ? 8 : 16;
  /** For so many columns, fewer a thread where the sums of all splits would fill a workgroup's memory. */
  const matvec = (columns: number): LinearVariant => {
    const variant: LinearVariant = {
      ...{ path, rows: emits ? 8 : 2, columns, threads: rowThreads },
      ...{ columnThreads: 1, splitThreads: splits, chains: 1 },
    };
    return columns === 1 || isVariant(variant, form, part.format) ? variant : matvec(columns / 2);
  };
  const [one, two, four, eight] = [matvec(1), matvec(2), matvec(4), matvec(8)];
  return {
    splits,
    matvec: MATVEC_COLUMNS.map((own) => (own === 1 ? one : own === 2 ? two : own <= 4 ? four : eight)),
    // Emitting takes eight rows.
    matmul: {
      ...{ path, rows: emits ? 8 : rows, columns, threads: emits ? 8 : threads },
      ...{ columnThreads, splitThreads: 1, chains: 1 },
    },
  };
}

/** The first shape of fragments that divides a tile of 64 rows by 64 columns, or by 32; undefined: there is none. */
function matrixVariant(part: LinearPartShape, form: LinearForm, features: LinearFeatures): LinearVariant | undefined {
  for (const fragment of features.fragments) {
    if (fragment.component === 'f16' && !features.has('shader-f16')) continue;
    // Fragments of f32 leave room for fewer columns.
    for (const columns of [4, 2]) {
      const variant: LinearVariant = {
        ...{ path: 'matrix', rows: 8, columns, threads: 8, columnThreads: 16, splitThreads: 1, chains: 1 },
        fragment,
      };
      if (isVariant(variant, form, part.format)) return variant;
    }
  }
  return undefined;
}

function isVariant(variant: LinearVariant, form: LinearForm, format: MatrixFormat): boolean {
  try {
    checkVariant(variant, form, format);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}
