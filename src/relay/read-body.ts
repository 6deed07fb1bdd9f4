import { finished, type Readable } from 'node:stream';

/** Chunks under this size are small, and many of them in a row are waited for and read together. */
const SMALL_BYTES = 1024;
const FEW = 8;

/**
 * The bytes of a Node stream as they come. Unlike Node's own iterator, `return` ends a `next` that waits, so that a
 * deadline needs no race for every chunk; and a body in tiny pieces costs one turn of the event loop a batch, not a
 * piece. The stream itself is left as it is: the status of a refused request must still reach its client.
 */
export function readBody(source: Readable): AsyncIterable<Uint8Array> {
  return { [Symbol.asyncIterator]: () => new BodyIterator(source) };
}

class BodyIterator implements AsyncIterator<Uint8Array, undefined> {
  private readonly source: Readable;
  private readonly stop: () => void;
  /** The stream has ended or failed. */
  private over = false;
  /** The reader wants no more. */
  private stopped = false;
  private failure: Error | undefined;
  /** Small chunks in a row. */
  private small = 0;
  private wake = () => {};

  constructor(source: Readable) {
    this.source = source;
    const onReadable = () => this.wake();
    source.on('readable', onReadable);
    const forget = finished(source, { writable: false }, (error) => {
      this.failure ??= error ?? undefined;
      this.over = true;
      this.wake();
    });
    this.stop = () => {
      forget();
      source.off('readable', onReadable);
    };
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.small >= FEW) await new Promise<void>((resolve) => setImmediate(resolve));
    for (;;) {
      // Whether it is over is asked before reading: what comes with the end is read first.
      const { over } = this;
      const chunk: Uint8Array | null = this.source.destroyed || this.stopped ? null : this.source.read();
      if (chunk !== null) {
        this.small = chunk.byteLength < SMALL_BYTES ? this.small + 1 : 0;
        return { done: false, value: chunk };
      }
      if (this.stopped || over) {
        this.stop();
        if (this.failure && !this.stopped) throw this.failure;
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.stopped = true;
    this.stop();
    this.wake();
    return Promise.resolve({ done: true, value: undefined });
  }
}
