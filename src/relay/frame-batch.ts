/** A gRPC message's head: a byte of flags, 0 for one that isn't compressed, and its length. */
export const FRAME_HEAD_BYTES = 5;
/** What a batch keeps for the next once it was taken. */
const KEPT_BYTES = 256 * 1024;

/** Messages in gRPC's frames, gathered for one write. */
export class FrameBatch {
  private buffer = Buffer.allocUnsafeSlow(KEPT_BYTES);
  private used = 0;

  get bytes(): number {
    return this.used;
  }

  add(message: Uint8Array): void {
    const at = this.open(message.byteLength);
    this.buffer.set(message, at);
  }

  /** Makes room for a message of so many bytes, to be written into `target` from the position returned. */
  open(length: number): number {
    const from = this.used;
    const to = from + FRAME_HEAD_BYTES + length;
    if (to > this.buffer.byteLength) this.grow(to);
    this.buffer[from] = 0;
    this.buffer.writeUInt32BE(length, from + 1);
    this.used = to;
    return from + FRAME_HEAD_BYTES;
  }

  get target(): Uint8Array {
    return this.buffer;
  }

  /** All frames so far, for the caller to keep; the batch is empty then. */
  take(): Buffer {
    const { buffer, used } = this;
    this.used = 0;
    if (buffer.byteLength <= KEPT_BYTES) return Buffer.from(buffer.subarray(0, used));
    // A large answer is not copied once more.
    this.buffer = Buffer.allocUnsafeSlow(KEPT_BYTES);
    return buffer.subarray(0, used);
  }

  clear(): void {
    this.used = 0;
  }

  private grow(bytes: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * this.buffer.byteLength));
    grown.set(this.buffer.subarray(0, this.used));
    this.buffer = grown;
  }
}
