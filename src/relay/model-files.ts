import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ModelAbout } from '../checkpoint/model-about.ts';
import type { ServedAdapters } from './lora/served-adapters.ts';
import { nameIn, sendFile, sendJson } from './send-file.ts';
import type { ServedModel } from './served-model.ts';

const FILES = '/model/files/';
const ADAPTERS = '/model/adapters/';

/**
 * Serves `/model/manifest.json`, exactly the text that the model digest is of, `/model/about.json`, what is told beside it,
 * with the URLs that nodes try before the relay, the manifest's files with ranges, and adapters' under `/model/adapters/DIGEST/`. A file's ETag is its SHA-256.
 * Returns false for any other path.
 */
export function serveModelFile(
  model: ServedModel,
  request: IncomingMessage,
  response: ServerResponse,
  bases: readonly string[] = [],
  adapters?: ServedAdapters,
): boolean {
  const path = (request.url ?? '/').split('?', 1)[0] as string;
  if (path === '/model/manifest.json') {
    sendJson(model.manifestJson, model.digest, request, response);
    return true;
  }
  if (path === '/model/about.json') {
    const about: ModelAbout = {
      ...model.about,
      bases,
      ...(adapters && adapters.room.most > 0 ? { adapters: adapters.room } : {}),
    };
    const json = JSON.stringify(about);
    sendJson(json, createHash('sha256').update(json).digest('hex'), request, response);
    return true;
  }
  if (path.startsWith(ADAPTERS)) {
    const [digest = '', name = ''] = (nameIn(ADAPTERS, path) ?? '').split('/');
    const file = adapters?.file(digest, name);
    if (file) sendFile(file, request, response);
    else response.writeHead(404).end();
    return true;
  }
  if (!path.startsWith(FILES)) return false;
  const name = nameIn(FILES, path);
  // Names come from the manifest only: no path of the client's reaches the disk.
  const file = model.manifest.files.find((one) => one.name === name);
  if (file) sendFile({ ...file, path: model.paths[file.name]! }, request, response);
  else response.writeHead(404).end();
  return true;
}
