import type { Socket } from 'node:net';
import { addressKey } from './address-key.ts';

/** Open connections, by host: one that opens too many gets no more, and the others theirs. */
export class ConnectionCount {
  private readonly open = new Map<string, number>();
  private readonly sockets = new Set<Socket>();
  private readonly maxOfHost: number;
  private readonly counts: (address: string) => boolean;

  /** Hosts of which `counts` is false may have any number. */
  constructor(maxOfHost: number, counts: (address: string) => boolean) {
    this.maxOfHost = maxOfHost;
    this.counts = counts;
  }

  /** False: it is one too many, and was cut. */
  take(socket: Socket): boolean {
    const address = socket.remoteAddress;
    // It is gone already.
    if (address === undefined) return false;
    if (this.counts(address)) {
      const key = addressKey(address);
      const count = this.open.get(key) ?? 0;
      if (count >= this.maxOfHost) {
        socket.destroy();
        return false;
      }
      this.open.set(key, count + 1);
      socket.once('close', () => {
        const left = this.open.get(key)! - 1;
        if (left === 0) this.open.delete(key);
        else this.open.set(key, left);
      });
    }
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
    return true;
  }

  destroyAll(): void {
    for (const socket of this.sockets) socket.destroy();
  }
}
