/** Gathers chunks in one growing buffer. Chunks are copied: each may be a small view of a large slab. */
export class ByteSink {
  private buffer = new Uint8Array(4096);
  private used = 0;

  get length(): number {
    return this.used;
  }

  get bytes(): Uint8Array {
    return this.buffer.subarray(0, this.used);
  }

  append(chunk: Uint8Array): void {
    const needed = this.used + chunk.byteLength;
    if (needed > this.buffer.byteLength) {
      const grown = new Uint8Array(Math.max(needed, this.buffer.byteLength * 2));
      grown.set(this.bytes);
      this.buffer = grown;
    }
    this.buffer.set(chunk, this.used);
    this.used = needed;
  }
}
