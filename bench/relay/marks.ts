/** Ids that a prompt's numbers are told in: below every vocabulary. */
const BASE = 250;

/** A prompt that tells which request it is of, wherever it comes. */
export function promptOf(number: number): number[] {
  return [7, number % BASE, Math.floor(number / BASE) % BASE, Math.floor(number / BASE ** 2) % BASE].map(
    (id) => id + 3,
  );
}

export function numberOf(inputIds: readonly number[]): number {
  const [, low, middle, high] = inputIds.map((id) => id - 3);
  return low! + BASE * (middle! + BASE * high!);
}

/** The machine's monotonic clock, which all its processes share, in microseconds. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 100n) / 10;
}
