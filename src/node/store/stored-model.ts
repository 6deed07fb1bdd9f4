import type { ByteSource } from '../../checkpoint/byte-source.ts';
import { type Manifest, totalBytesOf } from '../../checkpoint/manifest.ts';
import type { ModelFiles } from '../../engine/read-model.ts';
import type { ByteFolder } from './byte-file.ts';
import { DownloadTurn, type TurnNews, turnName } from './download-turn.ts';
import { dataName, mapName } from './model-record.ts';
import { PieceDownload, type PieceOrigin } from './piece-download.ts';
import { PieceFile } from './piece-file.ts';
import { megabytes, type StoreProgress } from './store-facts.ts';
import type { HeldLock, LockManager, TabChannel } from './store-locks.ts';
import { StoredSource } from './stored-source.ts';

/** What is told while a model is open. */
export interface StoreListener {
  onProgress(progress: StoreProgress): void;
  onTrouble(trouble: string | undefined): void;
  /** Something was mended that is no failure. */
  onNotice(notice: string): void;
}

export interface StoredModelParts {
  readonly manifest: Manifest;
  readonly digest: string;
  readonly folder: ByteFolder;
  readonly locks: LockManager;
  readonly channel: (name: string) => TabChannel<TurnNews>;
  /** Keeps others from deleting the model. */
  readonly use: HeldLock;
  readonly origin: (signal: AbortSignal, onTrouble: (trouble: string | undefined) => void) => PieceOrigin;
  /** Deletes what can go. False: nothing can. */
  readonly makeRoom: () => Promise<boolean>;
  readonly signal: AbortSignal;
  readonly listener: StoreListener;
}

/** A lock that doesn't come for so long is another tab's. */
const WAITS_MS = 200;

/**
 * A manifest's files in the store, which come as they are read and before: the download of what is missing begins at once,
 * in one tab of this browser at a time.
 */
export class StoredModel implements ModelFiles {
  readonly names: readonly string[];
  readonly #parts: StoredModelParts;
  readonly #total: number;
  readonly #closed = new AbortController();
  readonly #sources = new Map<string, ByteSource>();
  #files: readonly PieceFile[] = [];
  #download: PieceDownload | undefined;
  #turn: DownloadTurn | undefined;
  #trouble: string | undefined;

  private constructor(parts: StoredModelParts) {
    this.#parts = parts;
    this.names = parts.manifest.files.map(({ name }) => name);
    this.#total = totalBytesOf(parts.manifest.files);
  }

  /** Waits while another tab downloads it. Rejects with StoreError, or what `signal` was aborted for. */
  static async open(parts: StoredModelParts): Promise<StoredModel> {
    const model = new StoredModel(parts);
    try {
      await model.#open();
      return model;
    } catch (error) {
      model.close();
      throw error;
    }
  }

  open(name: string): ByteSource | undefined {
    return this.#sources.get(name);
  }

  /** Lets go of the files: what is open reads no more. The model stays in use. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(new Error('the model files are closed'));
    this.#download?.close();
    for (const file of this.#files) file.close();
    this.#turn?.end();
  }

  /** The model may be deleted. */
  release(): void {
    this.close();
    this.#parts.use.release();
  }

  async #open(): Promise<void> {
    const { folder, manifest, origin, listener } = this.#parts;
    const signal = AbortSignal.any([this.#parts.signal, this.#closed.signal]);
    if (!folder.shares) this.#turn = await this.#wait(signal);
    const files: PieceFile[] = [];
    this.#files = files;
    for (const file of manifest.files) {
      const data = await folder.open(dataName(file, manifest.pieceBytes));
      const map = await folder.open(mapName(file, manifest.pieceBytes)).catch((error: unknown) => {
        data.close();
        throw error;
      });
      try {
        files.push(new PieceFile(file, manifest.pieceBytes, data, map));
      } catch (error) {
        // `close` knows only of those that were pushed.
        map.close();
        data.close();
        throw error;
      }
    }
    if (!this.#whole && this.#turn === undefined) {
      this.#turn = await this.#wait(signal);
      for (const file of files) file.refresh();
    }
    const places = origin(signal, (trouble) => this.#tellTrouble(trouble));
    const download = new PieceDownload(files, places, {
      onBytes: () => this.#changed(),
      onFull: async () => {
        if (await this.#parts.makeRoom()) return true;
        const [kept, all] = [this.#storedBytes, this.#total].map(megabytes);
        const rest = 'the rest comes again at each start';
        listener.onNotice(
          `this browser has no more room for this site: ${kept} of ${manifest.name}'s ${all} are kept, ${rest}`,
        );
        return false;
      },
    });
    this.#download = download;
    const broken = ({ file }: PieceFile, index: number) => {
      const from = index * manifest.pieceBytes;
      const to = Math.min(from + manifest.pieceBytes, file.size);
      listener.onNotice(`bytes ${from} to ${to} of ${file.name} have changed on this disk, and are fetched again`);
    };
    for (const file of files) this.#sources.set(file.file.name, new StoredSource(file, download, broken));
    this.#changed();
    // Whoever reads what doesn't come hears why.
    download.run().catch(() => {});
  }

  get #whole(): boolean {
    return this.#files.every(({ whole }) => whole);
  }

  async #wait(signal: AbortSignal): Promise<DownloadTurn> {
    const { locks, channel, digest, listener } = this.#parts;
    const bytes = { loadedBytes: this.#loadedBytes, totalBytes: this.#total };
    const waits = setTimeout(() => listener.onProgress({ ...bytes, byOtherTab: true }), WAITS_MS);
    const onOther = ({ trouble, ...bytes }: TurnNews) => {
      listener.onProgress({ ...bytes, byOtherTab: true });
      if (trouble !== this.#trouble) this.#tellTrouble(trouble);
    };
    try {
      return await DownloadTurn.wait(locks, channel(turnName(digest)), digest, signal, onOther, () => ({
        loadedBytes: this.#loadedBytes,
        totalBytes: this.#total,
        trouble: this.#trouble,
      }));
    } finally {
      clearTimeout(waits);
    }
  }

  get #storedBytes(): number {
    return this.#files.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  }

  get #loadedBytes(): number {
    return this.#storedBytes + (this.#download?.unkeptBytes ?? 0);
  }

  #tellTrouble(trouble: string | undefined): void {
    this.#trouble = trouble;
    this.#parts.listener.onTrouble(trouble);
  }

  #changed(): void {
    this.#turn?.changed();
    // Others may read it beside this tab.
    if (this.#whole && this.#parts.folder.shares) this.#turn?.end();
    this.#parts.listener.onProgress({
      loadedBytes: this.#loadedBytes,
      totalBytes: this.#total,
      byOtherTab: false,
    });
  }
}
