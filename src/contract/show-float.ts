/**
 * A float32 in its shortest decimal form: the proto's floats widen to doubles such as 0.10000000149011612, and the
 * client wrote 0.1.
 */
export function showFloat(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return String(short);
  }
  return String(value);
}
