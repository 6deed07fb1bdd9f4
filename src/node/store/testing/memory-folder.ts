import { type ByteFile, type ByteFolder, StoreError, StoreFullError } from '../byte-file.ts';

/** A disk in memory that survives those who use it, and whose power may go at any byte. */
export class MemoryDisk {
  readonly files = new Map<string, Uint8Array<ArrayBuffer>>();
  /** Bytes that can still be written before the power goes. */
  left = Number.POSITIVE_INFINITY;
  /** Bytes that it holds. */
  capacity = Number.POSITIVE_INFINITY;

  get bytes(): number {
    return [...this.files.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  write(name: string, bytes: Uint8Array, at: number): void {
    const count = Math.min(bytes.byteLength, this.left);
    const before = this.files.get(name) ?? new Uint8Array();
    const grown = Math.max(0, at + count - before.byteLength);
    if (this.bytes + grown > this.capacity) throw new StoreFullError('the disk is full');
    this.left -= count;
    const after = new Uint8Array(before.byteLength + grown);
    after.set(before);
    after.set(bytes.subarray(0, count), at);
    this.files.set(name, after);
    if (count < bytes.byteLength) throw new StoreError('the power is gone');
  }
}

export class MemoryFolder implements ByteFolder {
  readonly disk: MemoryDisk;
  readonly shares: boolean;
  readonly #open = new Map<string, number>();

  constructor(disk = new MemoryDisk(), shares = true) {
    this.disk = disk;
    this.shares = shares;
  }

  async open(name: string): Promise<ByteFile> {
    const open = this.#open.get(name) ?? 0;
    if (open > 0 && !this.shares) throw new StoreError(`${name} is open`);
    this.#open.set(name, open + 1);
    const { disk } = this;
    if (!disk.files.has(name)) disk.files.set(name, new Uint8Array());
    const of = () => disk.files.get(name) ?? new Uint8Array();
    return {
      size: () => of().byteLength,
      read: (into, at) => {
        const bytes = of().subarray(at, at + into.byteLength);
        into.set(bytes);
        return bytes.byteLength;
      },
      write: (bytes, at) => disk.write(name, bytes, at),
      close: () => void this.#open.set(name, this.#open.get(name)! - 1),
    };
  }

  async list(): Promise<ReadonlyMap<string, number>> {
    return new Map([...this.disk.files].map(([name, { byteLength }]) => [name, byteLength]));
  }

  async readBytes(name: string): Promise<Uint8Array | undefined> {
    return this.disk.files.get(name)?.slice();
  }

  async readText(name: string): Promise<string | undefined> {
    const bytes = this.disk.files.get(name);
    return bytes && new TextDecoder().decode(bytes);
  }

  async writeText(name: string, text: string): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    if (this.disk.left < bytes.byteLength) throw new StoreError('the power is gone');
    this.disk.left -= bytes.byteLength;
    this.disk.files.set(name, bytes);
  }

  async remove(name: string): Promise<boolean> {
    if ((this.#open.get(name) ?? 0) > 0) return false;
    this.disk.files.delete(name);
    return true;
  }
}
