import type { Socket } from 'node:net';
import { addressKey, isLoopback } from './address-key.ts';

export interface ConnectionBounds {
  /** Of one host. */
  readonly ofHost: number;
  /** Of all together. */
  readonly most: number;
  /** Of `most`: what only this machine may take, and as many that only others may. Neither locks the other out. */
  readonly reserved: number;
}

/** Open connections of one port, by host: one that opens too many gets no more, and the others theirs. */
export class ConnectionCount {
  private readonly open = new Map<string, number>();
  private readonly sockets = new Set<Socket>();
  private readonly bounds: ConnectionBounds;
  /** Of this machine, behind whose address all of a proxy's clients are: no one host. */
  private local = 0;

  constructor(bounds: ConnectionBounds) {
    this.bounds = bounds;
  }

  /** False: it is one too many, and was cut. */
  take(socket: Socket): boolean {
    const address = socket.remoteAddress;
    // It is gone already.
    if (address === undefined) return false;
    const host = isLoopback(address) ? undefined : addressKey(address);
    if (!this.hasRoom(host)) {
      socket.destroy();
      return false;
    }
    this.count(host, 1);
    this.sockets.add(socket);
    socket.once('close', () => {
      this.sockets.delete(socket);
      this.count(host, -1);
    });
    return true;
  }

  destroyAll(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  private hasRoom(host: string | undefined): boolean {
    const { ofHost, most, reserved } = this.bounds;
    const all = this.sockets.size;
    if (all >= most) return false;
    if (host === undefined) return this.local < most - reserved;
    return all - this.local < most - reserved && (this.open.get(host) ?? 0) < ofHost;
  }

  private count(host: string | undefined, change: number): void {
    if (host === undefined) {
      this.local += change;
      return;
    }
    const left = (this.open.get(host) ?? 0) + change;
    if (left === 0) this.open.delete(host);
    else this.open.set(host, left);
  }
}
