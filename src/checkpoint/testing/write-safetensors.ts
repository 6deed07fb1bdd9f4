/** A small safetensors file, right or wrong: header (an object, or its text), data (or how many zeros), header length. */
export function writeSafetensors(header: unknown, data: Uint8Array | number = 0, claimed?: bigint): Uint8Array {
  const text = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const body = typeof data === 'number' ? new Uint8Array(data) : data;
  const bytes = new Uint8Array(8 + text.length + body.length);
  new DataView(bytes.buffer).setBigUint64(0, claimed ?? BigInt(text.length), true);
  bytes.set(text, 8);
  bytes.set(body, 8 + text.length);
  return bytes;
}
