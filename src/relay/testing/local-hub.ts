import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseRange } from '../parse-range.ts';

/** How a local hub misbehaves. */
export interface HubFaults {
  /** Bytes of each file's answer after which the connection is cut, as long as there are cuts left. */
  cutAfter?: number;
  cuts?: number;
  /** Answers 503 once the last cut is made. */
  busyAfterCuts?: boolean;
  /** Statuses to answer downloads with before any other. */
  statuses?: number[];
  /** Gives other bytes than it tells the hashes of. */
  corrupt?: boolean;
  /** The size that it tells of each large file. */
  claim?: number;
  /** Sends whole files, whatever is asked for. */
  noRanges?: boolean;
  /** What every question is answered with. */
  refuse?: { status: number; code?: string };
  /** An ETag of its own for each answer. */
  newTags?: boolean;
}

interface Ask {
  readonly host: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly range: string | undefined;
  readonly ifRange: string | undefined;
}

/**
 * A hub with one repository that speaks the endpoints of Hugging Face's that the relay uses; large files are sent for to
 * another host ("CDN"), as there: https://huggingface.co/docs/hub/api
 */
export class LocalHub {
  readonly commit = createHash('sha1').update('a commit').digest('hex');
  readonly asks: Ask[] = [];
  readonly faults: HubFaults = {};
  readonly #repository: string;
  readonly #files: Readonly<Record<string, Buffer>>;
  readonly #servers: Server[] = [];
  url = '';
  cdnUrl = '';

  private constructor(repository: string, files: Readonly<Record<string, Buffer>>) {
    this.#repository = repository;
    this.#files = files;
  }

  static async start(repository: string, files: Readonly<Record<string, Buffer>>): Promise<LocalHub> {
    const hub = new LocalHub(repository, files);
    const listen = async (answer: (request: IncomingMessage, response: ServerResponse) => void) => {
      const server = createServer((request, response) => {
        hub.asks.push({
          host: String(request.headers.host),
          path: String(request.url),
          authorization: request.headers.authorization,
          range: request.headers.range,
          ifRange: request.headers['if-range'] as string | undefined,
        });
        answer(request, response);
      });
      hub.#servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    };
    hub.url = await listen((request, response) => hub.#answer(request, response));
    hub.cdnUrl = await listen((request, response) => hub.#answerCdn(request, response));
    return hub;
  }

  /** Downloads asked for, of large files and small ones. */
  get downloads(): Ask[] {
    return this.asks.filter(({ path }) => path.startsWith('/cdn/') || path.includes('/resolve/'));
  }

  async close(): Promise<void> {
    for (const server of this.#servers) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const json = (value: unknown, headers = {}) => {
      response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
    };
    const refuse = (status: number, code: string | undefined) => {
      response.writeHead(status, code === undefined ? {} : { 'x-error-code': code }).end('{}');
    };
    const url = new URL(String(request.url), this.url);
    const path = decodeURIComponent(url.pathname);
    const api = `/api/models/${this.#repository}`;
    const revision = `${api}/revision/`;
    const tree = `${api}/tree/${this.commit}`;
    const resolve = `/${this.#repository}/resolve/${this.commit}/`;
    if (this.faults.refuse) refuse(this.faults.refuse.status, this.faults.refuse.code);
    else if (path.startsWith(revision)) {
      if (['main', 'refs/pr/1'].includes(path.slice(revision.length))) json({ sha: this.commit });
      else refuse(404, 'RevisionNotFound');
    } else if (path === tree || path.startsWith(`${tree}/`)) {
      const entries = this.#entries(path.slice(tree.length + 1));
      // In two pages, as long lists come.
      if (url.searchParams.has('cursor')) json(entries.slice(2));
      else json(entries.slice(0, 2), { link: `<${this.url}${path}?cursor=2>; rel="next"` });
    } else if (path.startsWith(resolve)) {
      const name = path.slice(resolve.length);
      const bytes = this.#files[name];
      if (!bytes) refuse(404, 'EntryNotFound');
      else if (isLarge(bytes)) response.writeHead(302, { location: `${this.cdnUrl}/cdn/${name}` }).end();
      else this.#send(request, response, bytes);
    } else refuse(404, 'RepoNotFound');
  }

  #answerCdn(request: IncomingMessage, response: ServerResponse): void {
    const bytes = this.#files[decodeURIComponent(String(request.url).slice('/cdn/'.length))];
    if (bytes) this.#send(request, response, bytes);
    else response.writeHead(404).end();
  }

  #send(request: IncomingMessage, response: ServerResponse, right: Buffer): void {
    const { faults } = this;
    const status = faults.busyAfterCuts && faults.cuts === 0 ? 503 : faults.statuses?.shift();
    if (status !== undefined) {
      response.writeHead(status).end();
      return;
    }
    const bytes = faults.corrupt ? Buffer.from(right).fill(1, right.length - 1) : right;
    const tag = faults.newTags ? `"${this.asks.length}"` : `"${sha256(bytes)}"`;
    const ifRange = request.headers['if-range'];
    const wanted = faults.noRanges || (ifRange !== undefined && ifRange !== tag) ? undefined : request.headers.range;
    const range = parseRange(wanted, bytes.length);
    if (range === 'unsatisfiable') {
      response.writeHead(416).end();
      return;
    }
    const [start, end] = range ?? [0, bytes.length - 1];
    response.writeHead(range ? 206 : 200, {
      etag: tag,
      'content-length': end - start + 1,
      ...(range ? { 'content-range': `bytes ${start}-${end}/${bytes.length}` } : {}),
    });
    if (faults.cutAfter !== undefined && (faults.cuts ?? 0) > 0 && end - start + 1 > faults.cutAfter) {
      faults.cuts = (faults.cuts ?? 0) - 1;
      response.write(bytes.subarray(start, start + faults.cutAfter), () => setTimeout(() => response.destroy(), 20));
      return;
    }
    response.end(bytes.subarray(start, end + 1));
  }

  #entries(folder: string): object[] {
    const prefix = folder && `${folder}/`;
    return Object.entries(this.#files).flatMap(([path, bytes]) => {
      if (!path.startsWith(prefix)) return [];
      const oid = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
      const lfs = isLarge(bytes)
        ? { lfs: { oid: sha256(bytes), size: this.faults.claim ?? bytes.length, pointerSize: 130 } }
        : {};
      return path.slice(prefix.length).includes('/')
        ? [{ type: 'directory', path: path.slice(0, path.indexOf('/', prefix.length)), oid, size: 0 }]
        : [{ type: 'file', path, oid, size: bytes.length, ...lfs }];
    });
  }
}

/** What is kept outside of Git. */
function isLarge(bytes: Buffer): boolean {
  return bytes.length > 100_000;
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
