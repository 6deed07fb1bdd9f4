import { type Manifest, totalBytesOf } from '../../checkpoint/manifest.ts';
import { type ByteFolder, StoreError } from './byte-file.ts';
import { turnName } from './download-turn.ts';
import {
  dataName,
  type ModelRecord,
  mapName,
  parseRecord,
  recordDigest,
  recordName,
  recordOf,
} from './model-record.ts';
import { readPieceMap } from './piece-map.ts';
import { type KeptModel, megabytes, type StoreRoom } from './store-facts.ts';
import type { HeldLock, LockManager } from './store-locks.ts';
import { StoredModel, type StoredModelParts } from './stored-model.ts';

export interface StoreParts {
  readonly folder: ByteFolder;
  readonly locks: LockManager;
  /** To the other tabs. */
  readonly channel: StoredModelParts['channel'];
  readonly room: () => Promise<StoreRoom>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Held while files are added or deleted. */
const FOLDER_LOCK = 'shoal-models';
/** Adding and deleting take moments: a tab that takes so long hangs, in milliseconds. */
const LOCK_MS = 20_000;
/** For maps, records and what the browser itself adds. */
const MARGIN_BYTES = 1 << 20;

/** The models that this browser keeps for this site. The least recently used are deleted where another needs their room. */
export class ModelStore {
  readonly #parts: StoreParts;

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  room(): Promise<StoreRoom> {
    return this.#parts.room();
  }

  /**
   * Opens a model, and begins to download what is missing. Rejects with StoreError, which tells the sizes where there is no
   * room for it.
   */
  async open(
    manifest: Manifest,
    digest: string,
    rest: Pick<StoredModelParts, 'origin' | 'signal' | 'listener'>,
  ): Promise<StoredModel> {
    const { folder, locks, channel } = this.#parts;
    const use = await this.#take(useName(digest), 'shared', rest.signal, 'deletes this model');
    try {
      await this.#exclusively(() => this.#prepare(manifest, digest, rest.listener), rest.signal);
      const makeRoom = () => this.#exclusively(() => this.#deleteOldest(manifest, digest, rest.listener), rest.signal);
      return await StoredModel.open({ ...rest, manifest, digest, folder, locks, channel, use, makeRoom });
    } catch (error) {
      use.release();
      throw error;
    }
  }

  /** The most recently used first. */
  async list(): Promise<readonly KeptModel[]> {
    const sizes = await this.#parts.folder.list();
    const held = await this.#parts.locks.held();
    const models: KeptModel[] = [];
    for (const record of await this.#records(sizes)) {
      const { name, digest, usedAt, files } = record;
      models.push({
        ...{ name, digest, usedAt },
        storedBytes: await this.#storedOf(record, sizes),
        totalBytes: totalBytesOf(files),
        inUse: held.has(useName(digest)) || held.has(turnName(digest)),
      });
    }
    return models.sort((a, b) => b.usedAt - a.usedAt);
  }

  /** Bytes of a manifest's files that are in the store. */
  async storedBytes(manifest: Manifest): Promise<number> {
    return this.#storedOf(manifest, await this.#parts.folder.list());
  }

  /** Why a model can't be kept, with sizes, whichever others would go for it; undefined where it can. */
  async refusal(manifest: Manifest): Promise<string | undefined> {
    const sizes = await this.#parts.folder.list();
    const room = await this.room();
    const needed = neededBytes(manifest, sizes);
    const own = new Set(manifest.files.map((file) => dataName(file, manifest.pieceBytes)));
    const others = total(new Map([...sizes].filter(([name]) => !own.has(name))));
    const free = freeBytes(room) + others;
    return needed > 0 && needed + MARGIN_BYTES > free ? noRoom(manifest, needed, free, room) : undefined;
  }

  /** Rejects where someone uses the model. */
  delete(digest: string, signal: AbortSignal): Promise<void> {
    return this.#exclusively(async () => {
      const sizes = await this.#parts.folder.list();
      if (!(await this.#remove(digest, await this.#records(sizes)))) {
        throw new Error('a tab of this browser uses the model');
      }
    }, signal);
  }

  async #prepare(
    manifest: Manifest,
    digest: string,
    listener: Pick<StoredModelParts['listener'], 'onNotice'>,
  ): Promise<void> {
    const { folder, now } = this.#parts;
    const sizes = await folder.list();
    const records = await this.#records(sizes);
    await this.#clean(sizes, [...records, recordOf(manifest, digest, 0)]);
    const room = await this.room();
    const needed = neededBytes(manifest, sizes);
    let free = freeBytes(room);
    while (needed > 0 && needed + MARGIN_BYTES > free) {
      const before = total(await folder.list());
      if (!(await this.#deleteOldest(manifest, digest, listener))) break;
      free += before - total(await folder.list());
    }
    if (needed > 0 && needed + MARGIN_BYTES > free) {
      throw new StoreError(noRoom(manifest, needed, free, room));
    }
    await folder.writeText(recordName(digest), JSON.stringify(recordOf(manifest, digest, now())));
  }

  /** Deletes the least recently used of the models that nobody uses. False: there is none but this. */
  async #deleteOldest(
    { name }: Manifest,
    digest: string,
    { onNotice }: Pick<StoredModelParts['listener'], 'onNotice'>,
  ): Promise<boolean> {
    const records = await this.#records(await this.#parts.folder.list());
    for (const old of records.toSorted((a, b) => a.usedAt - b.usedAt)) {
      if (old.digest === digest || !(await this.#remove(old.digest, records))) continue;
      onNotice(`${old.name} was deleted from this browser's store, to make room for ${name}`);
      return true;
    }
    return false;
  }

  async #records(sizes: ReadonlyMap<string, number>): Promise<ModelRecord[]> {
    const records: ModelRecord[] = [];
    for (const name of sizes.keys()) {
      const digest = recordDigest(name);
      if (digest === undefined) continue;
      const record = parseRecord(await this.#parts.folder.readText(name), digest);
      if (record) records.push(record);
    }
    return records;
  }

  /** Deletes what no model has: a tab that was closed while it deleted leaves files behind. */
  async #clean(sizes: ReadonlyMap<string, number>, records: readonly ModelRecord[]): Promise<void> {
    const wanted = new Set(records.flatMap((record) => [recordName(record.digest), ...fileNames(record)]));
    for (const name of sizes.keys()) if (!wanted.has(name)) await this.#parts.folder.remove(name);
  }

  /** Deletes a model with the files that no other has. False where someone uses it. */
  async #remove(digest: string, records: readonly ModelRecord[]): Promise<boolean> {
    const { folder, locks } = this.#parts;
    const lock = await locks.tryTake(useName(digest));
    if (lock === undefined) return false;
    try {
      await folder.remove(recordName(digest));
      const others = new Set(records.filter((record) => record.digest !== digest).flatMap(fileNames));
      for (const name of records.filter((record) => record.digest === digest).flatMap(fileNames)) {
        if (!others.has(name)) await folder.remove(name);
      }
      return true;
    } finally {
      lock.release();
    }
  }

  async #exclusively<T>(act: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const lock = await this.#take(FOLDER_LOCK, 'exclusive', signal, 'adds or deletes models');
    try {
      return await act();
    } finally {
      lock.release();
    }
  }

  /** Rejects with StoreError where another tab, of which `does` tells what it does, holds the lock for too long. */
  async #take(name: string, mode: 'exclusive' | 'shared', signal: AbortSignal, does: string): Promise<HeldLock> {
    const hung = new AbortController();
    const why = `another tab ${does}, and hasn't ended for ${LOCK_MS / 1000} s`;
    const timer = setTimeout(() => hung.abort(new StoreError(why)), LOCK_MS);
    try {
      return await this.#parts.locks.take(name, mode, AbortSignal.any([signal, hung.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Bytes of these files that need not be fetched, by their maps: a file that was cut may be longer than what came of it. */
  async #storedOf(
    { files, pieceBytes }: Pick<ModelRecord, 'files' | 'pieceBytes'>,
    sizes: ReadonlyMap<string, number>,
  ): Promise<number> {
    let stored = 0;
    for (const file of files) {
      const dataBytes = sizes.get(dataName(file, pieceBytes)) ?? 0;
      if (dataBytes === 0) continue;
      const map = await this.#parts.folder.readBytes(mapName(file, pieceBytes));
      const { wholeBytes, begun } = readPieceMap(map, { size: file.size, pieceBytes }, dataBytes);
      stored += wholeBytes + begun;
    }
    return stored;
  }
}

/** By which files must grow. Browsers count a file's length as used, gaps with it, so what comes into a gap needs no room. */
function neededBytes({ files, pieceBytes }: Manifest, sizes: ReadonlyMap<string, number>): number {
  return files.reduce((sum, file) => sum + Math.max(file.size - (sizes.get(dataName(file, pieceBytes)) ?? 0), 0), 0);
}

function freeBytes({ quota, usage }: StoreRoom): number {
  return quota === undefined || usage === undefined ? Number.POSITIVE_INFINITY : quota - usage;
}

function noRoom({ name }: Manifest, needed: number, free: number, { quota = 0 }: StoreRoom): string {
  const left = megabytes(Math.max(free, 0));
  return `${name} needs ${megabytes(needed)} more, and this browser lets this site keep ${left} more (${megabytes(quota)} in all)`;
}

function useName(digest: string): string {
  return `shoal-model-${digest}`;
}

function fileNames({ files, pieceBytes }: ModelRecord): string[] {
  return files.flatMap((file) => [dataName(file, pieceBytes), mapName(file, pieceBytes)]);
}

function total(sizes: ReadonlyMap<string, number>): number {
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
}
