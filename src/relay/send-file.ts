import { createReadStream } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import { parseRange } from './parse-range.ts';

export interface SentFile {
  readonly name: string;
  readonly path: string;
  /** In bytes. */
  readonly size: number;
  /** Hex; the ETag. */
  readonly sha256: string;
}

/** Answers GET and HEAD with a file, or a range of it; 304 where the client has just that, 405 to other methods. */
export function sendFile({ name, path, size, sha256 }: SentFile, request: IncomingMessage, response: ServerResponse) {
  if (!allowed(request, response)) return;
  response.setHeader('accept-ranges', 'bytes');
  response.setHeader('content-type', name.endsWith('.json') ? 'application/json' : 'application/octet-stream');
  if (unchanged(request, response, sha256)) return;
  const ifRange = request.headers['if-range'];
  const wanted = ifRange === undefined || ifRange === `"${sha256}"` ? request.headers.range : undefined;
  const range = parseRange(wanted, size);
  if (range === 'unsatisfiable') {
    response.writeHead(416, { 'content-range': `bytes */${size}` }).end();
    return;
  }
  const [start, end] = range ?? [0, size - 1];
  response.setHeader('content-length', end - start + 1);
  if (range) response.setHeader('content-range', `bytes ${start}-${end}/${size}`);
  response.writeHead(range ? 206 : 200);
  if (request.method === 'HEAD' || size === 0) response.end();
  else {
    // A client that leaves, or a file that vanished, ends the response; there is nobody left to tell.
    pipeline(createReadStream(path, { start, end }), response, () => {});
  }
}

/** Answers GET and HEAD with JSON, whose ETag is `tag`. */
export function sendJson(json: string, tag: string, request: IncomingMessage, response: ServerResponse): void {
  if (!allowed(request, response) || unchanged(request, response, tag)) return;
  const bytes = Buffer.from(json);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.byteLength });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

/** A file's name out of a path that begins with `folder`; undefined where it isn't well-formed. */
export function nameIn(folder: string, path: string): string | undefined {
  try {
    return decodeURIComponent(path.slice(folder.length));
  } catch {
    return undefined;
  }
}

function allowed(request: IncomingMessage, response: ServerResponse): boolean {
  if (request.method === 'GET' || request.method === 'HEAD') return true;
  response.writeHead(405, { allow: 'GET, HEAD' }).end();
  return false;
}

/** Sets the ETag; answers 304 where the client has just that. */
function unchanged(request: IncomingMessage, response: ServerResponse, tag: string): boolean {
  const etag = `"${tag}"`;
  response.setHeader('etag', etag);
  response.setHeader('cache-control', 'no-cache');
  const known = request.headers['if-none-match'];
  if (known === undefined) return false;
  const matches = known.split(',').some((one) => [etag, `W/${etag}`, '*'].includes(one.trim()));
  if (matches) response.writeHead(304).end();
  return matches;
}
