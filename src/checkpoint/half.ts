const single = new Float32Array(1);
const singleBits = new Uint32Array(single.buffer);

/**
 * The value of an IEEE 754 half. Millions of scales come through here: no powers are computed. The kernels' room has one
 * of its own, plain and for its references: neither room knows the other, and a test in `model` holds them together.
 */
export function decodeHalf(bits: number): number {
  const sign = bits & 0x8000;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return (sign ? -fraction : fraction) * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  singleBits[0] = (sign << 16) | ((exponent + 112) << 23) | (fraction << 13);
  return single[0]!;
}
