/**
 * How GGML keeps numbers: blocks of a fixed size, each decoded by itself. The layouts are those of the block structs in
 * https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h; the values follow from the formulas there, every
 * float32 operation rounded once.
 */
export interface BlockFormat {
  /** Values of one block. */
  readonly values: number;
  /** Bytes of one block. */
  readonly bytes: number;
  /** Where in a block its half-precision scales and minima are, in bytes. */
  readonly halves: readonly number[];
  /** Whether byte 0 is an E8M0 exponent, in which 255 means NaN (OCP Microscaling Formats 1.0, 5.4.1). */
  readonly exponentByte?: boolean;
  /** Writes the values of the block at byte `at` from index `to` on. */
  decode(block: DataView, at: number, values: Float32Array, to: number): void;
}

/** Of all blocks of `bytes`, the first with an infinite or undefined scale or minimum; −1 where all are finite. */
export function firstBadBlock(format: BlockFormat, bytes: Uint8Array): number {
  const { bytes: stride, halves, exponentByte = false } = format;
  if (halves.length === 0 && !exponentByte) return -1;
  for (let block = 0, at = 0; at + stride <= bytes.length; block++, at += stride) {
    if (exponentByte && bytes[at] === 255) return block;
    // A half is little-endian, and all ones in its exponent are bits 2 to 6 of the second byte.
    for (const half of halves) if ((bytes[at + half + 1]! & 0x7c) === 0x7c) return block;
  }
  return -1;
}
