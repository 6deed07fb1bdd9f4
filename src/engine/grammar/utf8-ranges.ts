import type { CharSet } from './char-set.ts';

/** Ranges of bytes, one for each byte of a character. */
export type ByteRanges = readonly (readonly [number, number])[];

/** Code points of one length in UTF-8; surrogates have none. */
const LENGTHS = [
  [0x0, 0x7f],
  [0x80, 0x7ff],
  [0x800, 0xd7ff],
  [0xe000, 0xffff],
  [0x10000, 0x10ffff],
] as const;

/** A set of characters as the sequences of byte ranges that spell exactly them. */
export function utf8Ranges(set: CharSet): ByteRanges[] {
  const found: ByteRanges[] = [];
  for (const [from, to] of set) {
    for (const [first, last] of LENGTHS) {
      const low = Math.max(from, first);
      const high = Math.min(to, last);
      if (low <= high) split(low, high, found);
    }
  }
  return found;
}

/** Where the last bytes don't run over all their values, the range is cut. */
function split(low: number, high: number, found: ByteRanges[]): void {
  const length = encode(low).length;
  for (let i = 1; i < length; i++) {
    const tail = 2 ** (6 * i) - 1;
    if ((low & ~tail) === (high & ~tail)) continue;
    if ((low & tail) !== 0) {
      split(low, low | tail, found);
      split((low | tail) + 1, high, found);
      return;
    }
    if ((high & tail) !== tail) {
      split(low, (high & ~tail) - 1, found);
      split(high & ~tail, high, found);
      return;
    }
  }
  const to = encode(high);
  found.push(encode(low).map((byte, i) => [byte, to[i]!]));
}

function encode(char: number): number[] {
  return [...new TextEncoder().encode(String.fromCodePoint(char))];
}
