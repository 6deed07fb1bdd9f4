/** Inclusive ranges of code points, ascending, neither touching nor overlapping. */
export type CharSet = readonly (readonly [number, number])[];

const LAST = 0x10ffff;

/** The set of the given ranges, in any order. */
export function charSet(ranges: Iterable<readonly [number, number]>): CharSet {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

/** The set of the characters of `text`. */
export function charsOf(text: string): CharSet {
  return charSet([...text].map((char) => [char.codePointAt(0)!, char.codePointAt(0)!]));
}

export function union(...sets: readonly CharSet[]): CharSet {
  return charSet(sets.flat());
}

export function complement(set: CharSet): CharSet {
  const rest: [number, number][] = [];
  let from = 0;
  for (const [start, end] of set) {
    if (start > from) rest.push([from, start - 1]);
    from = end + 1;
  }
  if (from <= LAST) rest.push([from, LAST]);
  return rest;
}

export function intersection(a: CharSet, b: CharSet): CharSet {
  return complement(union(complement(a), complement(b)));
}

export function without(a: CharSet, b: CharSet): CharSet {
  return intersection(a, complement(b));
}

export function hasChar(set: CharSet, char: number): boolean {
  return set.some(([from, to]) => from <= char && char <= to);
}
