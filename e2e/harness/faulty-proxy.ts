import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import { ReportRequestSchema } from '../../src/contract/gen/node_relay_pb.ts';

/** What becomes of a Report on its way; each is a way a network fails. Times are milliseconds. */
export type ReportFate =
  | 'arrives'
  | 'comes twice'
  | 'answer lost'
  /** Again after so long, behind newer ones. */
  | { readonly againAfter: number }
  /** Its connection breaks, and what was sent arrives after so long, behind its own repetition. */
  | { readonly overtaken: number };

/** A node's way to its relay, which fails as a test wants it to: cut, silent or slow, with Reports that come twice or late. */
export class FaultyProxy {
  readonly #server = createServer((incoming, response) => void this.#forward(incoming, response));
  readonly #target: string;
  readonly #agent = false;
  #down = false;
  #closed = false;
  /** Bytes wait for it, both ways. */
  #silence: Promise<unknown> | undefined;
  #delayMs = 0;
  #fate: () => ReportFate = () => 'arrives';
  #toldAt = Number.NEGATIVE_INFINITY;

  private constructor(target: string) {
    this.#target = target;
  }

  /** `target` is the base URL of a web port. */
  static async open(target: string): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Milliseconds since the node last told something of its work. */
  get sinceTold(): number {
    return performance.now() - this.#toldAt;
  }

  /** Breaks all connections, and each that is tried within `ms`. */
  async cut(ms: number): Promise<void> {
    this.#down = true;
    this.#server.closeAllConnections();
    await sleep(ms);
    this.#down = this.#closed;
  }

  /** Nothing passes for `ms`, and no connection breaks. */
  async freeze(ms: number): Promise<void> {
    const silence = sleep(ms);
    this.#silence = silence;
    await silence;
    if (this.#silence === silence) this.#silence = undefined;
  }

  /** For `ms` everything takes `delayMs` longer, each way. */
  async slow(ms: number, delayMs: number): Promise<void> {
    this.#delayMs = delayMs;
    await sleep(ms);
    this.#delayMs = 0;
  }

  /** For `ms` each Report meets its fate. */
  async muddle(ms: number, fate: () => ReportFate): Promise<void> {
    this.#fate = fate;
    await sleep(ms);
    this.#fate = () => 'arrives';
  }

  /** For good, as a machine goes that loses its power. */
  async close(): Promise<void> {
    this.#down = true;
    this.#closed = true;
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #forward(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    incoming.on('error', () => response.destroy());
    response.on('error', () => {});
    if (this.#down) {
      incoming.socket.destroy();
      return;
    }
    try {
      // What a node sends is one message, and small.
      const body: Buffer[] = [];
      for await (const part of incoming) body.push(part as Buffer);
      await this.#passage();
      const bytes = Buffer.concat(body);
      if (incoming.url?.endsWith('/Report')) await this.#report(incoming, bytes, response);
      else await this.#pass(incoming, bytes, response);
    } catch {
      response.destroy();
    }
  }

  async #report(incoming: IncomingMessage, body: Buffer, response: ServerResponse): Promise<void> {
    if (fromBinary(ReportRequestSchema, body).events.length > 0) this.#toldAt = performance.now();
    const fate = this.#fate();
    // Nobody waits for what comes of it.
    const again = () => void this.#ask(incoming, body, undefined).then((answer) => answer.resume(), nothing);
    if (typeof fate === 'object' && 'overtaken' in fate) {
      response.destroy();
      setTimeout(again, fate.overtaken);
      return;
    }
    if (fate === 'answer lost') {
      (await this.#ask(incoming, body, undefined)).resume();
      response.destroy();
      return;
    }
    await this.#pass(incoming, body, response);
    if (fate === 'comes twice') again();
    else if (fate !== 'arrives') setTimeout(again, fate.againAfter);
  }

  async #pass(incoming: IncomingMessage, body: Buffer, response: ServerResponse): Promise<void> {
    const answer = await this.#ask(incoming, body, response);
    response.writeHead(answer.statusCode!, answer.headers);
    response.flushHeaders();
    for await (const part of answer) {
      await this.#passage();
      if (response.destroyed) return;
      if (!response.write(part)) await new Promise<void>((resolve) => release(response, resolve));
    }
    response.end();
  }

  /** `response` is who waits for the answer: where it goes, the question goes too. */
  #ask(incoming: IncomingMessage, body: Buffer, response: ServerResponse | undefined): Promise<IncomingMessage> {
    const { method, headers, url } = incoming;
    return new Promise((resolve, reject) => {
      const asked = request(`${this.#target}${url}`, { method, headers, agent: this.#agent }, (answer) => {
        answer.on('error', () => response?.destroy());
        resolve(answer);
      });
      asked.on('error', reject);
      response?.on('close', () => asked.destroy());
      asked.end(body);
    });
  }

  async #passage(): Promise<void> {
    if (this.#delayMs > 0) await sleep(this.#delayMs);
    while (this.#silence) await this.#silence;
  }
}

function nothing(): void {}

/** Once it takes more, or nothing any more. */
function release(response: ServerResponse, done: () => void): void {
  const settle = () => {
    response.off('drain', settle);
    response.off('close', settle);
    done();
  };
  response.on('drain', settle);
  response.on('close', settle);
}
