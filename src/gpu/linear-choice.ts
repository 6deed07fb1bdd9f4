import { isFast, type LinearForm, type LinearVariant, variantName } from './linear-variant.ts';
import { isQuantFormat, type MatrixFormat, TILE_ROWS } from './weight-format.ts';

/** Products of up to so many columns may have a variant each; more share one. */
export const MATVEC_COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8] as const;

/** Which variants a product is made of. All share the order of K's sum, so a column's numbers don't depend on the others. */
export interface LinearChoice {
  /** Parts of K that are summed by themselves. Sums differ in their last digits between numbers of splits. */
  readonly splits: number;
  /** For 1, 2 … 8 columns. */
  readonly matvec: readonly LinearVariant[];
  /** For more. */
  readonly matmul: LinearVariant;
}

/** Throws RangeError where variants of a choice sum in different orders, those that are exact. */
export function checkChoice({ splits, matvec, matmul }: LinearChoice): void {
  const all = [matmul, ...matvec];
  const first = all.find(({ path }) => !isFast(path));
  for (const variant of all) {
    const { splitThreads, chains, path } = variant;
    if (splitThreads !== 1 && splitThreads !== splits) {
      throw new RangeError(`${splitThreads} threads along K for ${splits} splits`);
    }
    if (!isFast(path) && chains !== first!.chains) {
      throw new RangeError(
        `variants ${variantName(first!)} and ${variantName(variant)} of one choice sum in other orders`,
      );
    }
  }
}

/** What a product is chosen for: a part of a matrix. */
export interface LinearPartShape {
  /** Of 64 rows. */
  readonly tiles: number;
  /** Columns of the matrix: what is summed over. */
  readonly columns: number;
  readonly format: MatrixFormat;
}

export type ChooseLinear = (part: LinearPartShape, form: LinearForm) => LinearChoice;

/**
 * A thread walks all of K. As many accumulators as registers hold, and few enough to compile fast; where columns are
 * more than a thread's, others take them. Workgroups are small where rows are few.
 */
export function defaultChoice(
  { tiles, format }: LinearPartShape,
  { finish }: LinearForm,
  subgroups: boolean,
): LinearChoice {
  const variant = (rows: number, columns: number): LinearVariant => {
    const rowThreads = (tiles * TILE_ROWS) / rows;
    // Some 16 workgroups at least keep every core busy to the end; each width is a pipeline of its own to compile.
    const threads = rowThreads >= 16 * 64 ? 64 : 8;
    const path = subgroups && isQuantFormat(format) ? 'quads' : 'plain';
    return { path, rows, columns, threads, columnThreads: 1, splitThreads: 1, chains: 4 };
  };
  const single = variant(8, 1);
  const many = variant(8, 4);
  const pair = variant(isQuantFormat(format) || finish === 'emit' ? 8 : 4, 2);
  return {
    splits: 1,
    matvec: MATVEC_COLUMNS.map((columns) => (columns === 1 ? single : columns < 3 ? pair : many)),
    matmul: many,
  };
}

/** A choice of as few variants as can be: that of many columns for all, but for fragments, beside which that of one is. */
export function leanChoice({ splits, matvec, matmul }: LinearChoice): LinearChoice {
  const few = matmul.path === 'matrix' ? matvec[0]! : matmul;
  return { splits, matvec: matvec.map(() => few), matmul };
}
