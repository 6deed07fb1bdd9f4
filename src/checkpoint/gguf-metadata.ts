import { CheckpointError } from './checkpoint.ts';
import type { GgufCursor } from './gguf-cursor.ts';

export type GgufNumbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array
  | BigUint64Array
  | BigInt64Array;

/** A value of GGUF metadata. Whole numbers of 64 bits are bigint where a number can't hold them. */
export type GgufValue = string | number | bigint | boolean | readonly string[] | readonly boolean[] | GgufNumbers;

/** Numeric types by GGUF's number (enum gguf_metadata_value_type). */
const NUMERIC: Readonly<Record<number, { readonly bytes: number; read(bytes: Uint8Array): GgufNumbers }>> = {
  0: { bytes: 1, read: (bytes) => new Uint8Array(bytes) },
  1: { bytes: 1, read: (bytes) => new Int8Array(aligned(bytes)) },
  2: { bytes: 2, read: (bytes) => new Uint16Array(aligned(bytes)) },
  3: { bytes: 2, read: (bytes) => new Int16Array(aligned(bytes)) },
  4: { bytes: 4, read: (bytes) => new Uint32Array(aligned(bytes)) },
  5: { bytes: 4, read: (bytes) => new Int32Array(aligned(bytes)) },
  6: { bytes: 4, read: (bytes) => new Float32Array(aligned(bytes)) },
  10: { bytes: 8, read: (bytes) => new BigUint64Array(aligned(bytes)) },
  11: { bytes: 8, read: (bytes) => new BigInt64Array(aligned(bytes)) },
  12: { bytes: 8, read: (bytes) => new Float64Array(aligned(bytes)) },
};
const BOOLEAN = 7;
const STRING = 8;
const ARRAY = 9;

/**
 * A copy where typed arrays may start; slice() would not copy one of Node's Buffers. All machines that run this are
 * little-endian, as WebGPU's are.
 */
function aligned(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}

/** Reads the value that `cursor` stands at. Rejects with CheckpointError. */
export async function readGgufValue(cursor: GgufCursor): Promise<GgufValue> {
  await cursor.need(4);
  const type = cursor.u32();
  if (type === ARRAY) return readArray(cursor);
  if (type === STRING) return cursor.string();
  if (type === BOOLEAN) {
    await cursor.need(1);
    return readBoolean(cursor);
  }
  const numeric = NUMERIC[type] ?? cursor.fail(`has a value of type ${type}, which GGUF doesn't know`);
  await cursor.need(numeric.bytes);
  const value = numeric.read(cursor.bytes(numeric.bytes))[0]!;
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

async function readArray(cursor: GgufCursor): Promise<GgufValue> {
  await cursor.need(12);
  const type = cursor.u32();
  if (type === STRING) {
    return cursor.strings(cursor.count('strings', 8));
  }
  if (type === BOOLEAN) {
    const count = cursor.count('booleans', 1);
    await cursor.need(count);
    return Array.from({ length: count }, () => readBoolean(cursor));
  }
  // Lists of lists are in the format, but no key of its standard has one.
  if (type === ARRAY) cursor.fail('is a list of lists, which is not read');
  const numeric = NUMERIC[type] ?? cursor.fail(`has values of type ${type}, which GGUF doesn't know`);
  const bytes = cursor.count('numbers', numeric.bytes) * numeric.bytes;
  await cursor.need(bytes);
  return numeric.read(cursor.bytes(bytes));
}

function readBoolean(cursor: GgufCursor): boolean {
  const byte = cursor.u8();
  if (byte > 1) cursor.fail(`has the byte ${byte} for a boolean`);
  return byte === 1;
}

/** The key-value pairs of a GGUF file. Every getter throws CheckpointError naming file and key. */
export class GgufMetadata {
  readonly #file: string;
  readonly #values: ReadonlyMap<string, GgufValue>;

  constructor(file: string, values: ReadonlyMap<string, GgufValue>) {
    this.#file = file;
    this.#values = values;
  }

  get keys(): Iterable<string> {
    return this.#values.keys();
  }

  get(key: string): GgufValue | undefined {
    return this.#values.get(key);
  }

  fail(key: string, reason: string): never {
    throw new CheckpointError(`${this.#file}: ${key} ${reason}`);
  }

  string(key: string): string | undefined {
    const value = this.get(key);
    return value === undefined || typeof value === 'string' ? value : this.#wrong(key, value, 'a text');
  }

  boolean(key: string): boolean | undefined {
    const value = this.get(key);
    return value === undefined || typeof value === 'boolean' ? value : this.#wrong(key, value, 'true or false');
  }

  /** Any finite number. */
  number(key: string): number | undefined {
    const value = this.get(key);
    if (value === undefined || (typeof value === 'number' && Number.isFinite(value))) return value;
    return this.#wrong(key, value, 'a number');
  }

  /** A whole number that is not negative. */
  count(key: string): number | undefined {
    const value = this.get(key);
    if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0)) return value as number;
    return this.#wrong(key, value, 'a count');
  }

  strings(key: string): readonly string[] | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    // An empty list is one of texts too.
    if (Array.isArray(value) && (value.length === 0 || typeof value[0] === 'string')) return value as string[];
    return this.#wrong(key, value, 'a list of texts');
  }

  /** A list of them; undefined where the value is no list. */
  booleans(key: string): readonly boolean[] | undefined {
    const value = this.get(key);
    if (!Array.isArray(value)) return undefined;
    return value.every((each) => typeof each === 'boolean') ? value : this.#wrong(key, value, 'a list of booleans');
  }

  numbers(key: string): ArrayLike<number> | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (!ArrayBuffer.isView(value) || value instanceof BigUint64Array || value instanceof BigInt64Array) {
      return this.#wrong(key, value, 'a list of numbers');
    }
    return value;
  }

  #wrong(key: string, value: GgufValue, wanted: string): never {
    const list = typeof value === 'object';
    return this.fail(key, `is ${list ? `a list of ${value.length}` : JSON.stringify(String(value))}, not ${wanted}`);
  }
}
