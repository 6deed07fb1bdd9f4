/** Counts the gRPC messages that end in each piece of a stream. */
export class FrameCounter {
  #head = Buffer.alloc(5);
  #headBytes = 0;
  /** Of the message under way. */
  #left = 0;

  take(bytes: Buffer): number {
    let ended = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#headBytes < 5) {
        const taken = Math.min(5 - this.#headBytes, bytes.length - at);
        bytes.copy(this.#head, this.#headBytes, at, at + taken);
        this.#headBytes += taken;
        at += taken;
        if (this.#headBytes < 5) break;
        this.#left = this.#head.readUInt32BE(1);
      }
      const taken = Math.min(this.#left, bytes.length - at);
      this.#left -= taken;
      at += taken;
      if (this.#left === 0) {
        ended++;
        this.#headBytes = 0;
      }
    }
    return ended;
  }
}
