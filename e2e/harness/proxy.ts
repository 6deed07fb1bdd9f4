import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Transform } from 'node:stream';

/** Between a page and its relay: holds what a test wants held, cuts streams, tells another text in place of one. */
export class TestProxy {
  readonly #server = createServer((incoming, response) => this.#forward(incoming, response));
  readonly #target: string;
  #swap: readonly [string, string] | undefined;

  private constructor(target: string) {
    this.#target = target;
  }

  static async open(target: string): Promise<TestProxy> {
    const proxy = new TestProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /**
   * From now on pages are told `theirs` where the relay says `own`, and the relay `own` where they say `theirs`. Both
   * are of one length, so that the messages around them stay whole. Open streams are cut.
   */
  swap(own: string, theirs: string): void {
    if (own.length !== theirs.length) throw new Error('a text in place of another must be as long');
    this.#swap = [own, theirs];
    this.#server.closeAllConnections();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #forward(incoming: IncomingMessage, response: ServerResponse): void {
    const { 'if-none-match': _, ...headers } = incoming.headers;
    const { method } = incoming;
    const forwarded = request(`${this.#target}${incoming.url}`, { method, headers, agent: false }, (answer) => {
      const { etag: __, ...answerHeaders } = answer.headers;
      response.writeHead(answer.statusCode!, answerHeaders);
      response.flushHeaders();
      answer.pipe(this.#replacer(0, 1)).pipe(response);
      answer.on('error', () => response.destroy());
    });
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    incoming.on('error', () => forwarded.destroy());
    incoming.pipe(this.#replacer(1, 0)).pipe(forwarded);
  }

  #replacer(from: 0 | 1, to: 0 | 1): Transform {
    const swap = this.#swap;
    return new Transform({
      transform(bytes: Buffer, _encoding, done) {
        // A text cut in two would pass; the texts are short and come early in their messages.
        done(null, swap ? replaceAll(bytes, swap[from], swap[to]) : bytes);
      },
    });
  }
}

function replaceAll(bytes: Buffer, from: string, to: string): Buffer {
  const result = Buffer.from(bytes);
  for (let at = result.indexOf(from); at !== -1; at = result.indexOf(from, at + to.length)) result.write(to, at);
  return result;
}
