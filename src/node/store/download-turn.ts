import { StoreError } from './byte-file.ts';
import type { HeldLock, LockManager, TabChannel } from './store-locks.ts';

/** What the tab that downloads a model tells the others. */
export interface TurnNews {
  readonly loadedBytes: number;
  readonly totalBytes: number;
  readonly trouble: string | undefined;
}

/** How often it tells them at most, and at least, in milliseconds. */
const OFTEN_MS = 250;
const SELDOM_MS = 5_000;
/** A tab that says nothing for so long hangs. */
const SILENCE_MS = 45_000;

export function turnName(digest: string): string {
  return `shoal-download-${digest}`;
}

/** Being the one tab of this browser that downloads a model; the others follow what it tells. */
export class DownloadTurn {
  readonly #lock: HeldLock;
  readonly #channel: TabChannel<TurnNews>;
  readonly #news: () => TurnNews;
  readonly #heartbeat: ReturnType<typeof setInterval>;
  #toldAt = 0;
  #ended = false;

  private constructor(lock: HeldLock, channel: TabChannel<TurnNews>, news: () => TurnNews) {
    this.#lock = lock;
    this.#channel = channel;
    this.#news = news;
    this.#heartbeat = setInterval(() => this.#tell(), SELDOM_MS);
  }

  /**
   * Waits until no other tab downloads the model; `onOther` is told what the one that does tells. Rejects with StoreError
   * where that tab says nothing any more.
   */
  static async wait(
    locks: LockManager,
    channel: TabChannel<TurnNews>,
    digest: string,
    signal: AbortSignal,
    onOther: (news: TurnNews) => void,
    news: () => TurnNews,
  ): Promise<DownloadTurn> {
    const silence = new AbortController();
    const listen = () => setTimeout(() => silence.abort(new StoreError(SILENT)), SILENCE_MS);
    let timer = listen();
    channel.onmessage = ({ data }) => {
      clearTimeout(timer);
      timer = listen();
      onOther(data);
    };
    try {
      const lock = await locks.take(turnName(digest), 'exclusive', AbortSignal.any([signal, silence.signal]));
      channel.onmessage = null;
      return new DownloadTurn(lock, channel, news);
    } catch (error) {
      channel.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Something has changed. */
  changed(): void {
    if (performance.now() - this.#toldAt >= OFTEN_MS) this.#tell();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#heartbeat);
    this.#tell();
    this.#channel.close();
    this.#lock.release();
  }

  #tell(): void {
    this.#toldAt = performance.now();
    this.#channel.postMessage(this.#news());
  }
}

const SILENT = `another tab downloads this model, and has said nothing for ${SILENCE_MS / 1000} s`;
