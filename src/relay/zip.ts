import { promisify } from 'node:util';
import { crc32, deflateRaw } from 'node:zlib';

/** A file of an archive. */
export interface ZipFile {
  /** Without folders, ASCII. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

const LOCAL_HEADER = 0x04034b50;
const CENTRAL_HEADER = 0x02014b50;
const END_OF_CENTRAL = 0x06054b50;
/** 2.0: deflate. */
const VERSION = 20;
const DEFLATE = 8;
/** 1980-01-01, the first that there is: the same files make the same archive. */
const DATE = 33;

const deflate = promisify<Uint8Array, Buffer>(deflateRaw);

/**
 * An archive of a few files, each under 4 GiB; the same files make the same bytes.
 * https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
 */
export async function zip(files: readonly ZipFile[]): Promise<Buffer> {
  const parts: Buffer[] = [];
  const central: Buffer[] = [];
  let at = 0;
  for (const { name, bytes } of files) {
    const packed = await deflate(bytes);
    const label = Buffer.from(name, 'ascii');
    const facts = factsOf(bytes, packed, label);
    const local = Buffer.concat([uint32(LOCAL_HEADER), facts, label, packed]);
    central.push(
      // Made by, then the facts, then no comment, the first disk, no attributes.
      Buffer.concat([uint32(CENTRAL_HEADER), uint16(VERSION), facts, Buffer.alloc(10), uint32(at), label]),
    );
    parts.push(local);
    at += local.length;
  }
  const directory = Buffer.concat(central);
  const end = Buffer.concat([
    uint32(END_OF_CENTRAL),
    Buffer.alloc(4),
    uint16(files.length),
    uint16(files.length),
    uint32(directory.length),
    uint32(at),
    uint16(0),
  ]);
  return Buffer.concat([...parts, directory, end]);
}

/** What both headers have, in this order. */
function factsOf(bytes: Uint8Array, packed: Uint8Array, label: Uint8Array): Buffer {
  const flags = 0;
  const time = 0;
  const extra = 0;
  return Buffer.concat([
    ...[VERSION, flags, DEFLATE, time, DATE].map(uint16),
    ...[crc32(bytes), packed.byteLength, bytes.byteLength].map(uint32),
    ...[label.byteLength, extra].map(uint16),
  ]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
