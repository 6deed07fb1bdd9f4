import { pairedPlace, TILE_PAIRS } from './pair-order.ts';
import { type Cuttable, type PartPlan, piecesOf, rowsOf, tilesAPart } from './plan-parts.ts';
import { TILE_ROWS } from './weight-format.ts';

/** Tiles of a segment of `rows` rows; each begins with a whole tile. */
export function segmentTiles(rows: number, paired: boolean): number {
  return Math.ceil(paired ? rows / 2 / TILE_PAIRS : rows / TILE_ROWS);
}

/**
 * Cuts segments, each of the sources that lie one below the other in it, into parts of whole tiles of at most `limit`
 * bytes and, where one fits, of whole segments. Parts count rows as tiles have them: 64 a tile. With `paired` row r of a
 * segment's first half lies beside row r of its second (src/gpu/pair-order.ts). Throws RangeError where not even one tile
 * fits, or a format can't have so many columns; undefined where formats change.
 */
export function planSegments<S extends Cuttable>(
  columns: number,
  segments: readonly (readonly S[])[],
  limit: number,
  paired: boolean,
): PartPlan<S>[] | undefined {
  const sources = segments.flat();
  const { format } = sources[0]!;
  if (sources.some((source) => source.format !== format)) return undefined;
  const rows = rowsOf(segments[0]!);
  const uneven = segments.find((own) => rowsOf(own) !== rows);
  if (uneven) throw new RangeError(`${uneven[0]!.label}: ${rowsOf(uneven)} rows beside segments of ${rows}`);
  const tiles = segmentTiles(rows, paired);
  const fit = tilesAPart(columns, sources, limit);
  const most = fit < tiles ? fit : fit - (fit % tiles);
  const all = segments.length * tiles;
  const plans: PartPlan<S>[] = [];
  for (let first = 0; first < all; first += most) {
    const own = Math.min(most, all - first);
    // Of the segments that the part has tiles of.
    const from = Math.floor(first / tiles) * rows;
    const to = Math.ceil((first + own) / tiles) * rows;
    plans.push({
      firstRow: first * TILE_ROWS,
      rows: own * TILE_ROWS,
      tiles: own,
      format,
      pieces: piecesOf(sources, from, to - from).map((piece) => {
        const at = (Math.floor(piece.at / rows) * tiles - first) * TILE_ROWS;
        return { ...piece, within: [at, at + tiles * TILE_ROWS] as const };
      }),
      place(row) {
        const within = row % rows;
        const inSegment = paired ? pairedPlace(within, rows / 2) : within;
        return (Math.floor(row / rows) * tiles - first) * TILE_ROWS + inSegment;
      },
    });
  }
  return plans;
}
