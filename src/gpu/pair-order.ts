import { TILE_ROWS } from './weight-format.ts';

/** Pairs of a tile. */
export const TILE_PAIRS = TILE_ROWS / 2;

/**
 * Where rows lie in the tiles of a matrix whose rows belong together in twos: row r of each `2 · half` rows with row
 * r + half of them. Pair p has its rows in tile ⌊p / 32⌋: with l = ⌊(p mod 32) / 4⌋ and j = p mod 4 they are rows l + 8j
 * and l + 8j + 32 of the tile. So a thread of 8 rows, 8 apart, has four neighbouring pairs, one of 4 or 2 rows whole
 * pairs.
 */
export function pairedPlace(row: number, half: number): number {
  const within = row % (2 * half);
  const second = within >= half;
  const pair = (row - within) / 2 + (second ? within - half : within);
  const inTile = pair % TILE_PAIRS;
  const tile = (pair - inTile) / TILE_PAIRS;
  return tile * TILE_ROWS + (inTile >> 2) + 8 * (inTile & 3) + (second ? TILE_PAIRS : 0);
}

/** Rows of whole tiles that hold `pairs` pairs. */
export function pairedRows(pairs: number): number {
  return Math.ceil(pairs / TILE_PAIRS) * TILE_ROWS;
}
