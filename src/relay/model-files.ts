import { createReadStream } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import { parseRange } from './parse-range.ts';
import type { ServedModel } from './served-model.ts';

const FILES = '/model/files/';

/**
 * Serves `/model/manifest.json`, exactly the text that the model digest is of, and the manifest's files with ranges.
 * A file's ETag is its SHA-256. Returns false for any other path.
 */
export function serveModelFile(model: ServedModel, request: IncomingMessage, response: ServerResponse): boolean {
  const path = (request.url ?? '/').split('?', 1)[0] as string;
  if (path === '/model/manifest.json') {
    sendBytes(request, response, Buffer.from(model.manifestJson), model.digest);
    return true;
  }
  if (!path.startsWith(FILES)) return false;
  const name = decode(path.slice(FILES.length));
  // Names come from the manifest only: no path of the client's reaches the disk.
  const file = model.manifest.files.find((one) => one.name === name);
  if (!file) {
    response.writeHead(404).end();
    return true;
  }
  if (!allowed(request, response)) return true;
  response.setHeader('accept-ranges', 'bytes');
  response.setHeader('content-type', file.name.endsWith('.json') ? 'application/json' : 'application/octet-stream');
  if (unchanged(request, response, file.sha256)) return true;
  const ifRange = request.headers['if-range'];
  const wanted = ifRange === undefined || ifRange === `"${file.sha256}"` ? request.headers.range : undefined;
  const range = parseRange(wanted, file.size);
  if (range === 'unsatisfiable') {
    response.writeHead(416, { 'content-range': `bytes */${file.size}` }).end();
    return true;
  }
  const [start, end] = range ?? [0, file.size - 1];
  response.setHeader('content-length', end - start + 1);
  if (range) response.setHeader('content-range', `bytes ${start}-${end}/${file.size}`);
  response.writeHead(range ? 206 : 200);
  if (request.method === 'HEAD' || file.size === 0) response.end();
  else {
    // A client that leaves, or a file that vanished, ends the response; there is nobody left to tell.
    pipeline(createReadStream(model.paths[file.name]!, { start, end }), response, () => {});
  }
  return true;
}

function sendBytes(request: IncomingMessage, response: ServerResponse, bytes: Buffer, tag: string): void {
  if (!allowed(request, response) || unchanged(request, response, tag)) return;
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.byteLength });
  response.end(request.method === 'HEAD' ? undefined : bytes);
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

function decode(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}
