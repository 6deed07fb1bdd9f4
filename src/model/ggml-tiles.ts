import { isKeptHalf, tileStart, twoDigits, writeLanes } from '../gpu/pack-tiles.ts';
import { UNIT_COLUMNS } from '../gpu/quant-format.ts';
import { TILE_ROWS } from '../gpu/weight-format.ts';
import type { GgmlQuantType } from './ggml-quants.ts';

/**
 * Packs whole rows of blocks, `columns` values each, as repackGgml, packQuants and packScales do with halves for scales, in
 * one go: row i at row places[i] of the stretches of weights and scales, and nowhere where that is negative. False where a
 * half would not be exact.
 */
export type PackBlocks = (
  weights: Uint32Array,
  scales: Uint32Array,
  places: Int32Array,
  columns: number,
  bytes: Uint8Array,
) => boolean;

/** Of the commonest types: a node that starts has hundreds of megabytes of them to pack. */
const PACKERS: { readonly [type in GgmlQuantType]?: PackBlocks } = {
  Q4_0: fourBits(18, 2, (view, at) => {
    const d = view.getUint16(at, true);
    // The minimum is -8 d.
    const exponent = d & 0x7c00;
    if (exponent === 0) return isKeptHalf(d) ? d | ((d ^ 0x8000) << 16) : undefined;
    return exponent < 28 << 10 ? d | (((d ^ 0x8000) + (3 << 10)) << 16) : undefined;
  }),
  Q4_1: fourBits(20, 4, (view, at) => {
    const [d, min] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
    return isKeptHalf(d) && isKeptHalf(min) ? d | (min << 16) : undefined;
  }),
  Q8_0: eightBits,
};

/** Undefined: its blocks are unpacked first. */
export function ggmlPacker(type: GgmlQuantType): PackBlocks | undefined {
  return PACKERS[type];
}

/** Blocks of `stride` bytes with sixteen bytes of nibbles at `nibbles`; `scale` is the word of scale and minimum. */
function fourBits(
  stride: number,
  nibbles: number,
  scale: (view: DataView, at: number) => number | undefined,
): PackBlocks {
  return (weights, scales, places, columns, bytes) => {
    const view = viewOf(bytes);
    const units = columns / UNIT_COLUMNS;
    for (let i = 0; i < places.length; i++) {
      const place = places[i]!;
      if (place < 0) continue;
      let at = i * units * stride;
      let to = tileStart(place, units);
      for (let unit = 0; unit < units; unit++, at += stride, to += TILE_ROWS) {
        const first = view.getInt32(at + nibbles, true);
        const second = view.getInt32(at + nibbles + 4, true);
        const third = view.getInt32(at + nibbles + 8, true);
        const fourth = view.getInt32(at + nibbles + 12, true);
        // Low nibbles are columns 0 to 15, high ones 16 to 31.
        writeLanes(
          weights,
          4 * to,
          twoDigits(first, second),
          twoDigits(third, fourth),
          twoDigits(first >>> 4, second >>> 4),
          twoDigits(third >>> 4, fourth >>> 4),
        );
        const word = scale(view, at);
        if (word === undefined) return false;
        scales[to] = word;
      }
    }
    return true;
  };
}

/** Q8_0: a half, then 32 signed bytes. */
function eightBits(
  weights: Uint32Array,
  scales: Uint32Array,
  places: Int32Array,
  columns: number,
  bytes: Uint8Array,
): boolean {
  const view = viewOf(bytes);
  const units = columns / UNIT_COLUMNS;
  for (let i = 0; i < places.length; i++) {
    const place = places[i]!;
    if (place < 0) continue;
    let at = i * units * 34;
    let to = 4 * tileStart(place, 2 * units);
    let scaleAt = tileStart(place, units);
    for (let unit = 0; unit < units; unit++, at += 34, scaleAt += TILE_ROWS) {
      for (let from = at + 2; from < at + 34; from += 16, to += 4 * TILE_ROWS) {
        writeLanes(
          weights,
          to,
          view.getInt32(from, true),
          view.getInt32(from + 4, true),
          view.getInt32(from + 8, true),
          view.getInt32(from + 12, true),
        );
      }
      const d = view.getUint16(at, true);
      if (!isKeptHalf(d)) return false;
      scales[scaleAt] = d;
    }
  }
  return true;
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
