import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { CurrentModel } from './model/current-model.ts';
import { hashFile } from './model/file-hashes.ts';
import { nameIn, type SentFile, sendFile, sendJson } from './send-file.ts';
import type { ServedModel } from './served-model.ts';
import { tokenizerFileNames } from './tokenizer-file-names.ts';

const FILES = '/tokenizer/files/';

interface Listing {
  readonly files: readonly SentFile[];
  readonly json: string;
  /** SHA-256 of `json`. */
  readonly tag: string;
}

/**
 * The files of a model's tokenizer and chat template for clients on the web port, who see no weights: what
 * GetTokenizer packs, file by file. `/tokenizer/manifest.json` tells `{contextLength, files: [{name, sha256, size}], name, task}`,
 * `/tokenizer/files/NAME` gives one.
 */
export class TokenizerFiles {
  private readonly current: CurrentModel;
  private listed: { readonly of: ServedModel; readonly listing: Promise<Listing> } | undefined;

  constructor(current: CurrentModel) {
    this.current = current;
  }

  /** Resolves to false for any other path; rejects where the folder can't be read. */
  async serve(request: IncomingMessage, response: ServerResponse, path: string): Promise<boolean> {
    const isList = path === '/tokenizer/manifest.json';
    if (!isList && !path.startsWith(FILES)) return false;
    const { files, json, tag } = await this.list();
    if (isList) sendJson(json, tag, request, response);
    else {
      const name = nameIn(FILES, path);
      // Names come from the list only: no path of the client's reaches the disk.
      const file = files.find((one) => one.name === name);
      if (file) sendFile(file, request, response);
      else response.writeHead(404).end();
    }
    return true;
  }

  private list(): Promise<Listing> {
    const { now } = this.current;
    if (this.listed?.of !== now) {
      const listing = this.read(now).catch((error: unknown) => {
        // The next may fare better.
        this.listed = undefined;
        throw error;
      });
      this.listed = { of: now, listing };
    }
    return this.listed.listing;
  }

  private async read({ folder, name, contextLength, task }: ServedModel): Promise<Listing> {
    const files: SentFile[] = [];
    for (const file of await tokenizerFileNames(folder)) {
      const path = join(folder, file);
      const { size, sha256 } = await hashFile(path);
      files.push({ name: file, path, size, sha256 });
    }
    const told = files.map((file) => ({ name: file.name, sha256: file.sha256, size: file.size }));
    const json = JSON.stringify({ contextLength, files: told, name, task });
    return { files, json, tag: createHash('sha256').update(json).digest('hex') };
  }
}
