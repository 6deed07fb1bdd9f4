/** Once this much has come, a sink believes what it was told of the whole: before, memory would be had for a promise. */
const BELIEVED_BYTES = 256 * 1024;

/** Gathers chunks in one growing buffer. Chunks are copied: each may be a small view of a large slab. */
export class ByteSink {
  private buffer: Uint8Array = Buffer.allocUnsafe(4096);
  private used = 0;

  get length(): number {
    return this.used;
  }

  get bytes(): Uint8Array {
    return this.buffer.subarray(0, this.used);
  }

  /** `total` is how much is to come in all, as far as that is known. */
  append(chunk: Uint8Array, total = 0): void {
    const needed = this.used + chunk.byteLength;
    if (needed > this.buffer.byteLength) {
      const promised = needed > BELIEVED_BYTES ? total : 0;
      const size = Math.max(needed, promised >= needed ? promised : this.buffer.byteLength * 2);
      const grown = Buffer.allocUnsafeSlow(size);
      grown.set(this.bytes);
      this.buffer = grown;
    }
    this.buffer.set(chunk, this.used);
    this.used = needed;
  }
}
