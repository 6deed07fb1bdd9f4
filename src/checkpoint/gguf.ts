import type { ByteSource } from './byte-source.ts';
import { checkOverlaps } from './check-overlaps.ts';
import { type Checkpoint, CheckpointError, type TensorInfo } from './checkpoint.ts';
import { type BlockFormat, firstBadBlock } from './ggml-block.ts';
import { GGML_FORMATS, ggmlType, ggmlTypeName, isGgmlType } from './ggml-types.ts';
import { GgufCursor } from './gguf-cursor.ts';
import { GgufMetadata, type GgufValue, readGgufValue } from './gguf-metadata.ts';

/** A GGUF file: a checkpoint whose tensors have GGUF's names and GGML's types, and metadata. */
export interface Gguf extends Checkpoint {
  readonly version: number;
  readonly metadata: GgufMetadata;
}

/** "GGUF" as a little-endian u32. */
const MAGIC = 0x46554747;

/** As for safetensors: vocabularies of a quarter million tokens take some 10 MB. */
const MAX_HEADER_BYTES = 100_000_000;

const MAX_KEY_BYTES = 65_535;
const MAX_DIMENSIONS = 4;

/**
 * Reads the header of a GGUF file of version 2 or 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
 * Shapes are given outermost dimension first, against GGUF's own order. Reading a tensor holds the bytes asked for and
 * no others; whole blocks among them are checked for scales that are infinite or undefined.
 * Rejects with CheckpointError, also from `read`, naming file, tensor or key, and reason.
 *
 * Not with npm's `@huggingface/gguf`: it fetches a URL by itself, where this takes any byte source, bounds every count
 * by the bytes that are there, and checks tensors against the file's size.
 */
export async function readGguf(source: ByteSource): Promise<Gguf> {
  const cursor = new GgufCursor(source, MAX_HEADER_BYTES);
  await cursor.need(24);
  if (cursor.u32() !== MAGIC) throw new CheckpointError(`${source.name}: not a GGUF file`);
  const version = cursor.u32();
  if (version !== 2 && version !== 3) {
    const bigEndian = version === 0x02000000 || version === 0x03000000;
    throw new CheckpointError(
      bigEndian
        ? `${source.name}: a big-endian GGUF file; little-endian ones are read`
        : `${source.name}: GGUF version ${version}; 2 and 3 are read`,
    );
  }
  // A tensor takes at least 32 bytes (name length, count of dimensions, a dimension, type, offset), a pair 13.
  const tensorCount = cursor.count('tensors', 32);
  const pairCount = cursor.count('metadata pairs', 13);
  const metadata = new GgufMetadata(source.name, await readPairs(cursor, pairCount));
  const alignment = metadata.count('general.alignment') ?? 32;
  if (alignment === 0 || alignment % 8 !== 0) metadata.fail('general.alignment', `is ${alignment}, no multiple of 8`);

  const found: PlacedTensor[] = [];
  for (let i = 0; i < tensorCount; i++) {
    cursor.where = `the entry of tensor ${i}`;
    found.push(await readTensorInfo(cursor, source.name));
  }
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  const tensors = new Map<string, TensorInfo>();
  for (const { relative, ...tensor } of found) {
    const fail = (reason: string): never => {
      throw new CheckpointError(`${source.name}: tensor ${JSON.stringify(tensor.name)}: ${reason}`);
    };
    if (tensors.has(tensor.name)) fail('it is there twice');
    if (relative % BigInt(alignment) !== 0n) fail(`its offset ${relative} is no multiple of ${alignment}`);
    if (relative + BigInt(dataStart + tensor.byteLength) > BigInt(source.size)) {
      const end = relative + BigInt(dataStart + tensor.byteLength);
      fail(`it ends at byte ${end} of a file of ${source.size}: the file is cut off`);
    }
    tensors.set(tensor.name, { ...tensor, offset: dataStart + Number(relative) });
  }
  checkOverlaps(source.name, tensors);
  return { name: source.name, version, metadata, tensors, read: (...range) => readTensor(source, ...range) };
}

async function readPairs(cursor: GgufCursor, count: number): Promise<ReadonlyMap<string, GgufValue>> {
  const values = new Map<string, GgufValue>();
  for (let i = 0; i < count; i++) {
    cursor.where = `the key of metadata pair ${i}`;
    const key = await cursor.string();
    if (key === '' || key.length > MAX_KEY_BYTES) cursor.fail(`has ${key.length} characters`);
    cursor.where = JSON.stringify(key);
    if (values.has(key)) cursor.fail('is there twice');
    values.set(key, await readGgufValue(cursor));
  }
  return values;
}

type PlacedTensor = Omit<TensorInfo, 'offset'> & {
  /** From the start of the data. */
  readonly relative: bigint;
};

async function readTensorInfo(cursor: GgufCursor, file: string): Promise<PlacedTensor> {
  const name = await cursor.string();
  const fail = (reason: string): never => {
    throw new CheckpointError(`${file}: tensor ${JSON.stringify(name)}: ${reason}`);
  };
  await cursor.need(4);
  const dimensions = cursor.u32();
  if (dimensions < 1 || dimensions > MAX_DIMENSIONS)
    fail(`it has ${dimensions} dimensions, not 1 to ${MAX_DIMENSIONS}`);
  await cursor.need(8 * dimensions + 12);
  // Innermost first.
  const sizes = Array.from({ length: dimensions }, () => cursor.u64());
  const type = cursor.u32();
  const relative = cursor.u64();
  const dtype =
    ggmlType(type) ?? fail(`GGML type ${ggmlTypeName(type)} is not read; ${Object.keys(GGML_FORMATS).join(', ')} are`);
  const format: BlockFormat = GGML_FORMATS[dtype];
  const innermost = sizes[0]!;
  if (innermost % BigInt(format.values) !== 0n) {
    fail(`rows of ${innermost} values are no whole number of ${dtype} blocks of ${format.values}`);
  }
  const bytes = (sizes.reduce((product, size) => product * size, 1n) / BigInt(format.values)) * BigInt(format.bytes);
  if (bytes > BigInt(Number.MAX_SAFE_INTEGER) || sizes.some((size) => size > BigInt(Number.MAX_SAFE_INTEGER))) {
    fail(`shape [${sizes.toReversed().join(', ')}] is absurd`);
  }
  return { name, dtype, shape: sizes.map(Number).reverse(), byteLength: Number(bytes), relative };
}

async function readTensor(
  source: ByteSource,
  tensor: TensorInfo,
  from = 0,
  length = tensor.byteLength - from,
): Promise<Uint8Array> {
  if (from < 0 || length < 0 || from + length > tensor.byteLength) {
    throw new RangeError(`${source.name}: tensor ${tensor.name} has no bytes ${from}…${from + length}`);
  }
  const bytes = await source.read(tensor.offset + from, length);
  if (isGgmlType(tensor.dtype)) {
    const format = GGML_FORMATS[tensor.dtype];
    const first = Math.ceil(from / format.bytes);
    const bad = firstBadBlock(format, bytes.subarray(first * format.bytes - from));
    if (bad >= 0) {
      throw new CheckpointError(
        `${source.name}: tensor ${JSON.stringify(tensor.name)}: the scale of block ${first + bad} is not a finite number`,
      );
    }
  }
  return bytes;
}
