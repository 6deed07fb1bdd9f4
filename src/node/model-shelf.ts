import { ConnectError } from '@connectrpc/connect';
import { type Manifest, totalBytesOf } from '../checkpoint/manifest.ts';
import { estimateMemory } from '../engine/memory-estimate.ts';
import type { ModelFiles } from '../engine/read-model.ts';
import type { JoinRequest, NodeMessage } from './messages.ts';
import { fetchAbout, fetchManifest, relayFiles, type ServedManifest } from './model-files.ts';
import { ModelOrigins } from './model-origins.ts';
import { type Ask, RelayAccess } from './relay-access.ts';
import { StoreError } from './store/byte-file.ts';
import type { ModelStore } from './store/model-store.ts';
import type { StoreProgress } from './store/store-facts.ts';
import type { StoredModel } from './store/stored-model.ts';

/** Lists and plans that the page asks for. */
const ASK_MS = 30_000;
/** Between two tellings of progress. */
const PROGRESS_MS = 100;

/** Where a model is loaded from. */
export interface LoadFrom {
  readonly relayUrl: string;
  readonly signal: AbortSignal;
  readonly ask: Ask;
  onTrouble(trouble: string | undefined): void;
}

/** The page's models: loads them through the browser's store, or past it where there is none, and tells of the store. */
export class ModelShelf {
  readonly #post: (message: NodeMessage) => void;
  readonly #open: () => Promise<ModelStore>;
  #store: Promise<ModelStore> | undefined;
  #model: StoredModel | undefined;
  #toldAt = 0;
  #planning: AbortController | undefined;
  #access: { readonly relayUrl: string; readonly token: string | undefined; readonly access: RelayAccess } | undefined;

  /** `open` opens the browser's store; it rejects with StoreError where there is none. */
  constructor(post: (message: NodeMessage) => void, open: () => Promise<ModelStore>) {
    this.#post = post;
    this.#open = open;
  }

  /**
   * Has `load` read the served model's files: from the store, where what is missing comes to first, or, where the browser
   * keeps nothing, from the relay. The model stays in use until `release`. Rejects as `load` does.
   */
  async load<T>(served: ServedManifest, from: LoadFrom, load: (files: ModelFiles) => Promise<T>): Promise<T> {
    const { relayUrl, signal, ask } = from;
    try {
      return await this.#loadStored(served, from, load);
    } catch (error) {
      this.release();
      if (!(error instanceof StoreError)) throw error;
      signal.throwIfAborted();
      this.#notice(`The model is loaded without being kept, and comes again at each start: ${error.message}`);
    }
    const files = relayFiles(
      relayUrl,
      served.manifest,
      signal,
      {
        onProgress: (loadedBytes, totalBytes) => this.#progress({ loadedBytes, totalBytes, byOtherTab: false }),
        onTrouble: from.onTrouble,
      },
      ask,
    );
    return load(files);
  }

  /** The model that was loaded last may be deleted. */
  release(): void {
    this.#model?.release();
    this.#model = undefined;
  }

  async tellModels(problem?: string): Promise<void> {
    try {
      const store = await this.#openStore();
      this.#post({ type: 'models', models: await store.list(), room: await store.room(), problem });
    } catch (error) {
      this.#post({ type: 'models', models: [], room: undefined, problem: (error as Error).message });
    }
  }

  async delete(digest: string): Promise<void> {
    try {
      await (await this.#openStore()).delete(digest, AbortSignal.timeout(ASK_MS));
      await this.tellModels();
    } catch (error) {
      await this.tellModels(`It is not deleted: ${(error as Error).message}.`);
    }
  }

  /**
   * Tells what a join would download and take, unless it is asked anew meanwhile. A relay that can't be asked is told when
   * the node joins.
   */
  async plan({ relayUrl, token, budget }: Pick<JoinRequest, 'relayUrl' | 'token' | 'budget'>): Promise<void> {
    this.#planning?.abort();
    const planning = new AbortController();
    this.#planning = planning;
    const tell = (told: Omit<Extract<NodeMessage, { readonly type: 'plan' }>, 'type'>) => {
      if (this.#planning === planning) this.#post({ type: 'plan', ...told });
    };
    const { ask } = this.#accessTo(relayUrl, token);
    try {
      const signal = AbortSignal.any([planning.signal, AbortSignal.timeout(ASK_MS)]);
      const [{ manifest }, about] = await Promise.all([
        fetchManifest(relayUrl, signal, ask),
        fetchAbout(relayUrl, signal, ask),
      ]);
      const totalBytes = totalBytesOf(manifest.files);
      tell({
        plan: {
          model: manifest.name,
          totalBytes,
          hosts: about.bases.map((base) => new URL(base).host),
          memory: estimateMemory(about, manifest.quantisation, budget),
          ...(await this.#kept(manifest)),
        },
      });
    } catch (error) {
      // A ConnectError's message begins with its code.
      const problem = error instanceof ConnectError ? error.rawMessage : (error as Error).message;
      tell({ plan: undefined, problem });
    }
  }

  /** One session for all plans: a relay gives a token only so many at a time. */
  #accessTo(relayUrl: string, token: string | undefined): RelayAccess {
    const last = this.#access;
    if (last?.relayUrl === relayUrl && last.token === token) return last.access;
    const access = new RelayAccess(relayUrl, token);
    this.#access = { relayUrl, token, access };
    return access;
  }

  async #kept(manifest: Manifest) {
    try {
      const store = await this.#openStore();
      const [storedBytes, room] = [await store.storedBytes(manifest), await store.room()];
      return { storedBytes, room, notKept: await store.refusal(manifest) };
    } catch (error) {
      return { storedBytes: 0, room: undefined, notKept: (error as Error).message };
    }
  }

  async #loadStored<T>(
    { manifest, digest }: ServedManifest,
    { relayUrl, signal, ask, onTrouble }: LoadFrom,
    load: (files: ModelFiles) => Promise<T>,
  ): Promise<T> {
    const store = await this.#openStore();
    // A device that was lost is followed by another load of the same model.
    this.release();
    const { bases } = await fetchAbout(relayUrl, signal, ask);
    const onNotice = (notice: string) => this.#notice(notice);
    // The browser's cache would keep it a second time.
    const noStore = { cache: 'no-store' } as const;
    const uncached: Ask = (input, init) => ask(input, { ...init, ...noStore });
    const model = await store.open(manifest, digest, {
      signal,
      origin: (until, tellTrouble) =>
        new ModelOrigins(relayUrl, bases, until, { onTrouble: tellTrouble, onNotice }, uncached),
      listener: { onTrouble, onNotice, onProgress: (progress) => this.#progress(progress) },
    });
    this.#model = model;
    try {
      return await load(model);
    } finally {
      model.close();
      void this.tellModels();
    }
  }

  #openStore(): Promise<ModelStore> {
    this.#store ??= this.#open().catch((error: unknown) => {
      // It may be allowed by and by.
      this.#store = undefined;
      throw error;
    });
    return this.#store;
  }

  #notice(notice: string): void {
    this.#post({ type: 'notice', notice });
  }

  #progress(progress: StoreProgress): void {
    const now = performance.now();
    if (now - this.#toldAt < PROGRESS_MS && progress.loadedBytes < progress.totalBytes) return;
    this.#toldAt = now;
    this.#post({ type: 'progress', ...progress });
  }
}
