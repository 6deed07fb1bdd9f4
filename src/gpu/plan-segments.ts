import { pairedPlace, TILE_PAIRS } from './pair-order.ts';
import { type Cuttable, type PartPlan, piecesOf, rowsOf, tilesAPart } from './plan-parts.ts';
import { TILE_ROWS } from './weight-format.ts';

/** Tiles of a segment of `rows` rows; each begins with a whole tile. */
export function segmentTiles(rows: number, paired: boolean): number {
  return Math.ceil(paired ? rows / 2 / TILE_PAIRS : rows / TILE_ROWS);
}

/**
 * Cuts segments, each of the sources that lie one below the other in it, into parts of one format and of whole tiles, of
 * at most `limit` bytes and, where one fits, of whole segments. Parts count rows as tiles have them: 64 a tile. With
 * `paired` row r of a segment's first half lies beside row r of its second (src/gpu/pair-order.ts). Throws RangeError where
 * segments differ in rows, not even one tile fits, or a format can't have so many columns; undefined where formats change
 * inside of a segment.
 */
export function planSegments<S extends Cuttable>(
  columns: number,
  segments: readonly (readonly S[])[],
  limit: number,
  paired: boolean,
): PartPlan<S>[] | undefined {
  const rows = rowsOf(segments[0]!);
  const uneven = segments.find((own) => rowsOf(own) !== rows);
  if (uneven) throw new RangeError(`${uneven[0]!.label}: ${rowsOf(uneven)} rows beside segments of ${rows}`);
  if (segments.some((own) => own.some(({ format }) => format !== own[0]!.format))) return undefined;
  const tiles = segmentTiles(rows, paired);
  const plans: PartPlan<S>[] = [];
  let end = 0;
  for (let begin = 0; begin < segments.length; begin = end) {
    const { format } = segments[begin]![0]!;
    while (end < segments.length && segments[end]![0]!.format === format) end++;
    const sources = segments.slice(begin, end).flat();
    const fit = tilesAPart(columns, sources, limit);
    const most = fit < tiles ? fit : fit - (fit % tiles);
    const all = (end - begin) * tiles;
    for (let first = 0; first < all; first += most) {
      const own = Math.min(most, all - first);
      plans.push({
        firstRow: (begin * tiles + first) * TILE_ROWS,
        rows: own * TILE_ROWS,
        tiles: own,
        format,
        ...segmentPieces(sources, rows, tiles, paired, first, own),
      });
    }
  }
  return plans;
}

/** Which rows tiles [first, first + own) of segments have, and where; tiles before `first` and past them are other parts'. */
function segmentPieces<S extends Cuttable>(
  sources: readonly S[],
  rows: number,
  tiles: number,
  paired: boolean,
  first: number,
  own: number,
): Pick<PartPlan<S>, 'pieces' | 'place'> {
  const segmentAt = (row: number) => (Math.floor(row / rows) * tiles - first) * TILE_ROWS;
  const from = Math.floor(first / tiles) * rows;
  const to = Math.ceil((first + own) / tiles) * rows;
  return {
    pieces: piecesOf(sources, from, to - from).map((piece) => {
      const at = segmentAt(piece.at);
      return { ...piece, within: [at, at + tiles * TILE_ROWS] };
    }),
    place(row) {
      const within = row % rows;
      return segmentAt(row) + (paired ? pairedPlace(within, rows / 2) : within);
    },
  };
}
