import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Transform } from 'node:stream';

/** An answer with a model's file, or a part of it, as far as it passed. */
export interface PassedRange {
  readonly name: string;
  readonly from: number;
  bytes: number;
}

const FILES = '/model/files/';
/** What passes at once. */
const STRETCH = 16 * 1024;

/** Between pages and their relay: counts what passes of model files, holds it where a test says, and cuts it. */
export class FilesProxy {
  readonly passed: PassedRange[] = [];
  readonly #server = createServer((incoming, response) => this.#forward(incoming, response));
  readonly #target: string;
  readonly #held = new Set<ServerResponse>();
  #left = Number.POSITIVE_INFINITY;
  #wake: (() => void)[] = [];

  private constructor(target: string) {
    this.#target = target;
  }

  /** `target` is the base URL of a web port. */
  static async open(target: string): Promise<FilesProxy> {
    const proxy = new FilesProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Bytes of files that have passed. */
  get bytes(): number {
    return this.passed.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Lets so many bytes of files pass from now on, then none. */
  allow(bytes: number): void {
    this.#left = bytes;
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** Whether all that may pass has. */
  get holds(): boolean {
    return this.#left === 0 && this.#held.size > 0;
  }

  /** Breaks the connections that files come over. */
  cut(): void {
    for (const response of this.#held) response.destroy();
  }

  async close(): Promise<void> {
    this.allow(0);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #forward(incoming: IncomingMessage, response: ServerResponse): void {
    const { method, headers, url = '/' } = incoming;
    const forwarded = request(`${this.#target}${url}`, { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      response.flushHeaders();
      if (url.startsWith(FILES)) answer.pipe(this.#meter(url.slice(FILES.length), answer, response)).pipe(response);
      else answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    incoming.on('error', () => forwarded.destroy());
    incoming.pipe(forwarded);
  }

  #meter(name: string, answer: IncomingMessage, response: ServerResponse): Transform {
    const from = Number(/^bytes (\d+)-/.exec(answer.headers['content-range'] ?? '')?.[1] ?? 0);
    const range = { name, from, bytes: 0 };
    this.passed.push(range);
    this.#held.add(response);
    response.on('close', () => {
      this.#held.delete(response);
      for (const wake of this.#wake.splice(0)) wake();
    });
    const pass = async (chunk: Buffer, push: (bytes: Buffer) => void) => {
      for (let at = 0; at < chunk.length && !response.destroyed; ) {
        if (this.#left === 0) {
          await new Promise<void>((resolve) => this.#wake.push(resolve));
          continue;
        }
        const count = Math.min(STRETCH, chunk.length - at, this.#left);
        this.#left -= count;
        range.bytes += count;
        push(chunk.subarray(at, at + count));
        at += count;
      }
    };
    return new Transform({
      transform(chunk: Buffer, _encoding, done) {
        void pass(chunk, (bytes) => this.push(bytes)).then(() => done());
      },
    });
  }
}
