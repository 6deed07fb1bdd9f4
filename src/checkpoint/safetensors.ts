import type { ByteSource } from './byte-source.ts';
import { checkOverlaps } from './check-overlaps.ts';
import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';

export type { Checkpoint, TensorInfo } from './checkpoint.ts';

/** Bits of one element: https://huggingface.co/docs/safetensors, "Format". */
const DTYPE_BITS: Readonly<Record<string, number>> = {
  BOOL: 8,
  U8: 8,
  I8: 8,
  F8_E4M3: 8,
  F8_E5M2: 8,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  I64: 64,
  U64: 64,
  F64: 64,
};

/** The reference implementation's own bound on the header. */
const MAX_HEADER_BYTES = 100_000_000;

/**
 * Reads the header of a safetensors file: u64 little-endian header length, JSON header, then the data.
 * Throws CheckpointError where the header is broken, a tensor lies outside the file, overlaps another, or its size
 * does not follow from shape and dtype.
 */
export async function openSafetensors(source: ByteSource): Promise<Checkpoint> {
  const fail = (reason: string): never => {
    throw new CheckpointError(`${source.name}: ${reason}`);
  };
  if (source.size < 8) fail(`${source.size} bytes are too few for a safetensors file`);
  const start = await source.read(0, 8);
  const headerLength = Number(new DataView(start.buffer, start.byteOffset, 8).getBigUint64(0, true));
  if (headerLength > MAX_HEADER_BYTES || headerLength > source.size - 8) {
    fail(`the header claims ${headerLength} bytes of a file of ${source.size}`);
  }
  const dataStart = 8 + headerLength;
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(await source.read(8, headerLength)));
  } catch (error) {
    fail(`the header is not JSON (${(error as Error).message})`);
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) fail('the header is not a JSON object');

  const tensors = new Map<string, TensorInfo>();
  for (const [name, entry] of Object.entries(header as Record<string, unknown>)) {
    if (name === '__metadata__') continue;
    tensors.set(name, readTensorInfo(source, dataStart, name, entry));
  }
  checkOverlaps(source.name, tensors);
  return {
    name: source.name,
    tensors,
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      if (from < 0 || length < 0 || from + length > tensor.byteLength) {
        throw new RangeError(`${source.name}: tensor ${tensor.name} has no bytes ${from}…${from + length}`);
      }
      return source.read(tensor.offset + from, length);
    },
  };
}

function readTensorInfo(source: ByteSource, dataStart: number, name: string, entry: unknown): TensorInfo {
  const fail = (reason: string): never => {
    throw new CheckpointError(`${source.name}: tensor ${JSON.stringify(name)}: ${reason}`);
  };
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const bits = typeof dtype === 'string' && Object.hasOwn(DTYPE_BITS, dtype) ? DTYPE_BITS[dtype] : undefined;
  if (bits === undefined) return fail(`unknown dtype ${JSON.stringify(dtype)}`);
  if (!isSizes(shape)) return fail(`shape ${JSON.stringify(shape)} is not a list of sizes`);
  if (!isSizes(offsets) || offsets.length !== 2)
    return fail(`data_offsets ${JSON.stringify(offsets)} are not two offsets`);
  const [begin, end] = offsets as [number, number];
  const expected = (shape.reduce((product, size) => product * size, 1) * bits) / 8;
  if (end - begin !== expected) {
    return fail(`${end - begin} bytes, but ${dtype} of shape [${shape.join(', ')}] takes ${expected}`);
  }
  if (dataStart + end > source.size) {
    return fail(`it ends at byte ${dataStart + end} of a file of ${source.size}: the file is cut off`);
  }
  return { name, dtype: dtype as string, shape, offset: dataStart + begin, byteLength: end - begin };
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}
