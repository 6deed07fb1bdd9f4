import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { parseRange } from '../../src/relay/parse-range.ts';

/** A site that has a model's files, as far as it gives them. */
export class FileServer {
  /** Bytes that it has given. */
  given = 0;
  /** Whether pages of other sites may read them. */
  cors = true;
  /** Answers each request so. */
  status: number | undefined;
  readonly #server;

  private constructor(folder: string) {
    this.#server = createServer((request, response) => {
      if (this.cors) response.setHeader('access-control-allow-origin', '*');
      if (this.status !== undefined) {
        response.writeHead(this.status).end();
        return;
      }
      const path = join(folder, decodeURIComponent(String(request.url)));
      const { size } = statSync(path);
      const range = parseRange(request.headers.range, size);
      const [start, end] = Array.isArray(range) ? range : [0, size - 1];
      response.writeHead(206, { 'content-range': `bytes ${start}-${end}/${size}`, 'content-length': end - start + 1 });
      this.given += end - start + 1;
      createReadStream(path, { start, end }).pipe(response);
    });
  }

  static async open(folder: string): Promise<FileServer> {
    const server = new FileServer(folder);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
