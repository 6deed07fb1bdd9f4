import { pairedPlace, TILE_PAIRS } from './pair-order.ts';
import { UNIT_COLUMNS } from './quant-format.ts';
import { isQuantFormat, type MatrixFormat, TILE_ROWS, tileBytes } from './weight-format.ts';

/** What is cut: rows of one format. */
export interface Cuttable {
  readonly label: string;
  readonly rows: number;
  readonly format: MatrixFormat;
}

/** A part to be: which rows of which source it takes, and where they lie in its tiles. */
export interface PartPlan<S> {
  /** Its first row in the matrix; of paired rows its first pair. */
  readonly firstRow: number;
  /** Its rows, or pairs. */
  readonly rows: number;
  readonly tiles: number;
  readonly format: MatrixFormat;
  readonly pieces: readonly Piece<S>[];
  /** The tile row of row `row`, counted as `Piece.at` does; one out of the tiles is another part's. */
  place(row: number): number;
}

export interface Piece<S> {
  readonly source: S;
  /** Its first row in the source. */
  readonly from: number;
  readonly rows: number;
  /** Its first row as `place` counts. */
  readonly at: number;
  /** Tile rows that all of its own lie in, from and to; absent: anywhere in the part. */
  readonly within?: readonly [number, number];
}

/**
 * Cuts `sources`, one below the other, into parts of one format, each of whole tiles of at most `limit` bytes. Throws
 * RangeError where not even one tile fits, or a format can't have so many columns.
 */
export function planParts<S extends Cuttable>(columns: number, sources: readonly S[], limit: number): PartPlan<S>[] {
  const plans: PartPlan<S>[] = [];
  let firstRow = 0;
  for (const run of runsOfOneFormat(sources)) {
    const rowsAPart = TILE_ROWS * tilesAPart(columns, run, limit);
    const runRows = rowsOf(run);
    for (let from = 0; from < runRows; from += rowsAPart) {
      const rows = Math.min(rowsAPart, runRows - from);
      plans.push({
        firstRow: firstRow + from,
        rows,
        tiles: Math.ceil(rows / TILE_ROWS),
        format: run[0]!.format,
        pieces: piecesOf(run, from, rows),
        place: (row) => row - from,
      });
    }
    firstRow += runRows;
  }
  return plans;
}

/**
 * The same for rows that belong together in twos, `half` apart (src/gpu/pair-order.ts). Undefined where formats change
 * inside of 2 · half rows.
 */
export function planPairedParts<S extends Cuttable>(
  columns: number,
  sources: readonly S[],
  limit: number,
  half: number,
): PartPlan<S>[] | undefined {
  const plans: PartPlan<S>[] = [];
  let firstPair = 0;
  for (const run of runsOfOneFormat(sources)) {
    const tiles = tilesAPart(columns, run, limit);
    const runRows = rowsOf(run);
    if (runRows % (2 * half) !== 0) return undefined;
    const pairs = runRows / 2;
    for (let from = 0; from < pairs; from += tiles * TILE_PAIRS) {
      const own = Math.min(tiles * TILE_PAIRS, pairs - from);
      plans.push({
        firstRow: firstPair + from,
        rows: own,
        tiles: Math.ceil(own / TILE_PAIRS),
        format: run[0]!.format,
        pieces: piecesOf(run, 0, runRows),
        place: (row) => pairedPlace(row, half) - 2 * from,
      });
    }
    firstPair += pairs;
  }
  return plans;
}

/** Neighbours of one format together. */
function runsOfOneFormat<S extends Cuttable>(sources: readonly S[]): (readonly S[])[] {
  const runs: S[][] = [];
  for (const source of sources) {
    const run = runs.at(-1);
    if (run?.[0]?.format === source.format) run?.push(source);
    else runs.push([source]);
  }
  return runs;
}

export function rowsOf(run: readonly Cuttable[]): number {
  return run.reduce((sum, source) => sum + source.rows, 0);
}

export function tilesAPart(columns: number, run: readonly Cuttable[], limit: number): number {
  const { label, format } = run[0]!;
  if (isQuantFormat(format) && columns % UNIT_COLUMNS !== 0) {
    throw new RangeError(`${label}: ${columns} columns are no multiple of ${UNIT_COLUMNS}, as ${format} needs`);
  }
  const bytes = tileBytes(format, columns);
  if (bytes > limit) {
    throw new RangeError(
      `${label}: ${TILE_ROWS} rows of ${columns} columns are ${bytes} bytes, over the binding limit of ${limit}`,
    );
  }
  return Math.floor(limit / bytes);
}

/** Rows [from, from + rows) of a run. */
export function piecesOf<S extends Cuttable>(run: readonly S[], from: number, rows: number): Piece<S>[] {
  const pieces: Piece<S>[] = [];
  let at = 0;
  for (const source of run) {
    const first = Math.max(from, at);
    const last = Math.min(from + rows, at + source.rows);
    if (first < last) pieces.push({ source, from: first - at, rows: last - first, at: first });
    at += source.rows;
  }
  return pieces;
}
