import type { ByteSource } from './byte-source.ts';
import { CheckpointError } from './checkpoint.ts';

/** Bytes that are read at once. */
const CHUNK = 1 << 18;

/**
 * Reads a file's start little by little, in chunks. `need` fetches; the other methods take from what it fetched, so
 * that a hundred thousand strings don't cost as many promises.
 */
export class GgufCursor {
  readonly #source: ByteSource;
  /** No byte from here on is read. */
  readonly #end: number;
  #bytes: Uint8Array = new Uint8Array(0);
  #view = new DataView(this.#bytes.buffer);
  /** Of the next byte in #bytes. */
  #at = 0;
  /** Of #bytes in the file. */
  #base = 0;
  /** No strings are decoded together before this position: one of them may be broken. */
  #oneByOneTo = 0;
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  /** What is being read, for errors. */
  where = 'the header';

  constructor(source: ByteSource, end: number) {
    this.#source = source;
    this.#end = Math.min(end, source.size);
  }

  get position(): number {
    return this.#base + this.#at;
  }

  /** Bytes that can still be read. */
  get left(): number {
    return this.#end - this.position;
  }

  /** Whether the next `length` bytes are there already. */
  has(length: number): boolean {
    return this.#at + length <= this.#bytes.length;
  }

  fail(reason: string): never {
    throw new CheckpointError(`${this.#source.name}: ${this.where} ${reason}`);
  }

  /** Fetches until `has(length)`. Rejects with CheckpointError where the file, or the bound on its header, ends before. */
  async need(length: number): Promise<void> {
    if (this.has(length)) return;
    if (length > this.left) {
      const limit = this.#end < this.#source.size ? `the ${this.#end} bytes that a header may have` : 'the file';
      this.fail(`ends at byte ${this.position + length}, beyond ${limit} (${this.#source.size} bytes)`);
    }
    this.#base = this.position;
    this.#at = 0;
    this.#bytes = await this.#source.read(this.#base, Math.min(this.left, Math.max(length, CHUNK)));
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength);
    if (!this.has(length)) this.fail(`can't be read: ${this.#bytes.length} bytes came of ${length}`);
  }

  bytes(length: number): Uint8Array {
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  /** A view of the next `length` bytes. */
  view(length: number): DataView {
    const at = this.#advance(length);
    return new DataView(this.#view.buffer, this.#view.byteOffset + at, length);
  }

  /** A u64 that counts things of at least `bytes` bytes each in what is left: more than fit are an error. */
  count(what: string, bytes: number): number {
    const count = this.u64();
    // After the u64 itself.
    if (count > BigInt(Math.floor(this.left / bytes))) {
      this.fail(`has ${count} ${what}, more than ${this.left} bytes can hold`);
    }
    return Number(count);
  }

  /** A string: u64 length, UTF-8. */
  async string(): Promise<string> {
    await this.need(8);
    const length = this.count('characters', 1);
    await this.need(length);
    const bytes = this.bytes(length);
    try {
      return this.#utf8.decode(bytes);
    } catch {
      return this.fail('is not UTF-8');
    }
  }

  /** `count` strings, one after the other; a vocabulary's hundred thousand are decoded together. */
  async strings(count: number): Promise<string[]> {
    const strings: string[] = [];
    while (strings.length < count) {
      const more = this.#wholeStrings(count - strings.length);
      if (more.length === 0) strings.push(await this.string());
      else for (const text of more) strings.push(text);
    }
    return strings;
  }

  /** Up to `most` strings of those that were fetched whole; none where the next one wasn't, or may be broken. */
  #wholeStrings(most: number): string[] {
    if (this.position < this.#oneByOneTo) return [];
    const joined = new Uint8Array(this.#bytes.length - this.#at);
    const ends: number[] = [];
    let bytes = 0;
    let units = 0;
    let at = this.#at;
    while (ends.length < most && at + 8 <= this.#bytes.length) {
      const length = this.#view.getUint32(at, true);
      const start = at + 8;
      if (this.#view.getUint32(at + 4, true) !== 0 || start + length > this.#bytes.length) break;
      // A string that begins inside of a character would pass as the end of the one before it.
      if (length > 0 && (this.#bytes[start]! & 0xc0) === 0x80) break;
      for (let i = start; i < start + length; i++) {
        const byte = this.#bytes[i]!;
        joined[bytes++] = byte;
        // UTF-16 units: none for a byte that goes on, two for a character of four bytes.
        if ((byte & 0xc0) !== 0x80) units += byte < 0xf0 ? 1 : 2;
      }
      ends.push(units);
      at = start + length;
    }
    let text: string;
    try {
      text = this.#utf8.decode(joined.subarray(0, bytes));
    } catch {
      this.#oneByOneTo = this.#base + at;
      return [];
    }
    this.#at = at;
    return ends.map((end, i) => text.slice(i === 0 ? 0 : ends[i - 1], end));
  }

  #advance(length: number): number {
    this.#at += length;
    return this.#at - length;
  }
}
