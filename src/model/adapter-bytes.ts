import { lowRankBytes, shrunkNumbers } from '../gpu/low-rank-slots.ts';
import { rowWords } from '../gpu/row-words.ts';
import { TILE_ROWS } from '../gpu/weight-format.ts';
import { type LayerSites, SITE_KINDS } from './adapter-sites.ts';

/** GPU bytes that slots for `most` adapters take, and the scratch of steps of `rows` rows with some: from the first adapter on. */
export function adapterBytes(
  layers: readonly LayerSites[],
  { most, maxRank }: { readonly most: number; readonly maxRank: number },
  rows: number,
): number {
  if (most === 0) return 0;
  let slotBytes = 0;
  let shrunk = 0;
  let sums = 0;
  for (const sites of layers) {
    for (const kind of SITE_KINDS) {
      const site = sites[kind];
      if (!site) continue;
      const outputs = site.modules.map(({ count }) => count);
      const shape = { label: site.label, columns: site.columns, outputs, maxRank, slots: most };
      slotBytes += lowRankBytes(shape);
      shrunk = Math.max(shrunk, shrunkNumbers(shape));
      const all = outputs.reduce((sum, count) => sum + count, 0);
      if (kind === 'qkv' || kind === 'up') sums = Math.max(sums, all);
    }
  }
  return slotBytes + 16 * rows * rowWords(shrunk) + 4 * rows * Math.ceil(sums / TILE_ROWS) * TILE_ROWS;
}
