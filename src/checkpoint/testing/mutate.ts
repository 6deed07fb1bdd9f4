import fc from 'fast-check';

/** One change to a file. Places are parts of a million of the stretch that the change is made in. */
export type Mutation =
  | { readonly kind: 'byte' | 'u32' | 'u64'; readonly place: number; readonly value: bigint }
  | { readonly kind: 'cut'; readonly place: number }
  | { readonly kind: 'delete' | 'repeat'; readonly place: number; readonly length: number };

const place = fc.nat(999_999);

/** Sizes, counts and offsets that break careless readers, and any others. */
const value = fc.oneof(
  fc.constantFrom(0n, 1n, 2n, 31n, 255n, 65_536n, 0x7fffffffn, 0x80000000n, 0xffffffffn, 1n << 32n, 1n << 40n),
  fc.constantFrom((1n << 53n) - 1n, 1n << 53n, 1n << 62n, (1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
);

/** Up to four changes. */
export const mutations: fc.Arbitrary<Mutation[]> = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('byte', 'u32', 'u64'), place, value }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut'), place }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom('delete', 'repeat'),
        place,
        length: fc.integer({ min: 1, max: 40 }),
      }),
    },
  ) as fc.Arbitrary<Mutation>,
  { minLength: 1, maxLength: 4 },
);

/** `file` with the changes made in its first `stretch` bytes. */
export function mutate(file: Uint8Array, stretch: number, changes: readonly Mutation[]): Uint8Array {
  let bytes = file.slice();
  for (const change of changes) {
    const at = Math.floor((Math.min(stretch, bytes.length) * change.place) / 1_000_000);
    if (change.kind === 'cut') {
      bytes = bytes.slice(0, at);
    } else if ('length' in change) {
      const { kind, length } = change;
      const [head, middle, tail] = [
        bytes.subarray(0, at),
        bytes.subarray(at, at + length),
        bytes.subarray(at + length),
      ];
      const pieces = kind === 'delete' ? [head, tail] : [head, middle, middle, tail];
      const joined = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
      let to = 0;
      for (const piece of pieces) {
        joined.set(piece, to);
        to += piece.length;
      }
      bytes = joined;
    } else {
      const width = { byte: 1, u32: 4, u64: 8 }[change.kind];
      for (let i = 0; i < width && at + i < bytes.length; i++) {
        bytes[at + i] = Number((change.value >> BigInt(8 * i)) & 0xffn);
      }
    }
  }
  return bytes;
}
