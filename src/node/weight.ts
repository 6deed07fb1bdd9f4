/** What a message costs beside its numbers. */
const MESSAGE_WEIGHT = 16;

/** Numbers in an event on its way to the relay, those already encoded included; messages in it weigh some too. */
export function weightOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.byteLength / 4;
  if (Array.isArray(value)) return typeof value[0] === 'object' ? sum(value) : value.length;
  if (typeof value === 'object' && value !== null) return MESSAGE_WEIGHT + sum(Object.values(value));
  return 1;
}

function sum(values: readonly unknown[]): number {
  return values.reduce<number>((total, value) => total + weightOf(value), 0);
}
