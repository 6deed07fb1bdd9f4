import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const HEADER_BYTES = 9;
const [DATA, HEADERS, SETTINGS, WINDOW_UPDATE] = [0, 1, 4, 8];
const [END_STREAM, ACK, END_HEADERS] = [1, 1, 4];
const INITIAL_WINDOW = 65_535;

/** One gRPC call on a connection of its own whose DATA frames are cut by hand: no client library makes frames this small. */
export class RawCall {
  private readonly socket: Socket;
  private received = Buffer.alloc(0);
  /** What may be sent, of the connection and of the stream. */
  private readonly windows = [INITIAL_WINDOW, INITIAL_WINDOW];
  private wake = () => {};
  /** A frame of headers came: the call has its answer. */
  answered = false;

  private constructor(socket: Socket, path: string) {
    this.socket = socket;
    socket.on('data', (bytes) => this.take(bytes));
    socket.on('close', () => this.wake());
    socket.on('error', () => {});
    const headers = [
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', path],
      [':authority', 'relay'],
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
    ] as const;
    // Literals without indexing and without Huffman codes: every decoder must take them.
    const block = headers.map(([name, value]) => Buffer.concat([Buffer.of(0), text(name), text(value)]));
    socket.write(PREFACE);
    socket.write(frame(SETTINGS, 0, 0, Buffer.alloc(0)));
    socket.write(frame(HEADERS, END_HEADERS, 1, Buffer.concat(block)));
  }

  static async open(port: number, path: string): Promise<RawCall> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new RawCall(socket, path);
  }

  /** Sends a body one byte to a frame, as fast as flow control lets it. Resolves early where the call was answered. */
  async flood(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length && !this.over; ) {
      const count = Math.min(bytes.length - at, 4096, ...this.windows);
      if (count === 0) {
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
        continue;
      }
      const frames = Array.from({ length: count }, (_, k) =>
        frame(DATA, at + k === bytes.length - 1 ? END_STREAM : 0, 1, bytes.subarray(at + k, at + k + 1)),
      );
      at += count;
      this.windows[0]! -= count;
      this.windows[1]! -= count;
      if (!this.socket.write(Buffer.concat(frames))) await once(this.socket, 'drain');
    }
  }

  async answer(): Promise<void> {
    while (!this.over) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
    if (!this.answered) throw new Error('the connection ended without an answer');
  }

  close(): void {
    this.socket.destroy();
  }

  private get over(): boolean {
    return this.answered || this.socket.destroyed;
  }

  private take(bytes: Buffer): void {
    this.received = Buffer.concat([this.received, bytes]);
    while (this.received.length >= HEADER_BYTES) {
      const length = this.received.readUIntBE(0, 3);
      if (this.received.length < HEADER_BYTES + length) break;
      const [type, flags] = [this.received[3], this.received[4] as number];
      const stream = this.received.readUInt32BE(5);
      this.obey(type, flags, stream, this.received.subarray(HEADER_BYTES, HEADER_BYTES + length));
      this.received = this.received.subarray(HEADER_BYTES + length);
    }
    this.wake();
  }

  private obey(type: number | undefined, flags: number, stream: number, payload: Buffer): void {
    if (type === HEADERS) this.answered = true;
    else if (type === WINDOW_UPDATE) this.windows[stream === 0 ? 0 : 1]! += payload.readUInt32BE(0);
    else if (type === SETTINGS && (flags & ACK) === 0) {
      for (let at = 0; at < payload.length; at += 6) {
        if (payload.readUInt16BE(at) === 4) this.windows[1]! += payload.readUInt32BE(at + 2) - INITIAL_WINDOW;
      }
      this.socket.write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)));
    }
  }
}

function frame(type: number | undefined, flags: number | undefined, stream: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type as number;
  bytes[4] = flags as number;
  bytes.writeUInt32BE(stream, 5);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** A string of under 127 bytes, as HPACK writes it. */
function text(value: string): Buffer {
  return Buffer.concat([Buffer.of(value.length), Buffer.from(value)]);
}
