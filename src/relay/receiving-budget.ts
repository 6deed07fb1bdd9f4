import { Code, ConnectError } from '@connectrpc/connect';

/** Bounds the bytes of request bodies that are held at a time, over all streams of both ports. */
export class ReceivingBudget {
  private held = 0;
  private readonly maxBytes: number;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.held;
  }

  /** Throws ConnectError (RESOURCE_EXHAUSTED), and holds nothing more, where that would be too much. */
  take(bytes: number): void {
    if (this.held + bytes > this.maxBytes) {
      throw new ConnectError('The relay is receiving too much at a time.', Code.ResourceExhausted);
    }
    this.held += bytes;
  }

  release(bytes: number): void {
    this.held -= bytes;
  }
}
