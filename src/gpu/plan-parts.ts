import { UNIT_COLUMNS } from './quant-format.ts';
import { isQuantFormat, type MatrixFormat, TILE_ROWS, tileBytes } from './weight-format.ts';

/** What is cut: rows of one format. */
interface Cuttable {
  readonly label: string;
  readonly rows: number;
  readonly format: MatrixFormat;
}

/** A part to be: which rows of which source it takes. */
export interface PartPlan<S> {
  readonly firstRow: number;
  readonly rows: number;
  readonly format: MatrixFormat;
  readonly pieces: readonly { readonly source: S; readonly from: number; readonly rows: number }[];
}

/**
 * Cuts `sources`, one below the other, into parts of one format, each of whole tiles of at most `limit` bytes. Throws
 * RangeError where not even one tile fits, or a format can't have so many columns.
 */
export function planParts<S extends Cuttable>(columns: number, sources: readonly S[], limit: number): PartPlan<S>[] {
  const plans: (PartPlan<S> & { rows: number; pieces: PartPlan<S>['pieces'][number][] })[] = [];
  let firstRow = 0;
  let room = 0;
  for (const source of sources) {
    const { label, format } = source;
    if (isQuantFormat(format) && columns % UNIT_COLUMNS !== 0) {
      throw new RangeError(`${label}: ${columns} columns are no multiple of ${UNIT_COLUMNS}, as ${format} needs`);
    }
    const bytes = tileBytes(format, columns);
    const rowsAPart = TILE_ROWS * Math.floor(limit / bytes);
    if (rowsAPart < 1) {
      throw new RangeError(
        `${label}: ${TILE_ROWS} rows of ${columns} columns are ${bytes} bytes, over the binding limit of ${limit}`,
      );
    }
    let from = 0;
    while (from < source.rows) {
      let plan = plans.at(-1);
      if (!plan || plan.format !== format || room === 0) {
        plan = { firstRow, rows: 0, format, pieces: [] };
        plans.push(plan);
        room = rowsAPart;
      }
      const rows = Math.min(room, source.rows - from);
      plan.pieces.push({ source, from, rows });
      plan.rows += rows;
      from += rows;
      firstRow += rows;
      room -= rows;
    }
  }
  return plans;
}
