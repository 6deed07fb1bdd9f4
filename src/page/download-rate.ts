/** Older than this says nothing of how fast a download is now. */
const WINDOW_MS = 5_000;
/** Before it has gone on for so long, its speed is chance. */
const LEAST_MS = 500;

interface Point {
  readonly at: number;
  readonly bytes: number;
}

/** How fast a download is, by its last seconds. Times are milliseconds of a monotonic clock. */
export class DownloadRate {
  #points: Point[] = [];

  /** So many bytes are there by now. */
  add(at: number, bytes: number): void {
    // Another download, or the same from its start.
    if (bytes < (this.#points.at(-1)?.bytes ?? 0)) this.#points = [];
    this.#points.push({ at, bytes });
    // One that is older stays, so that there is something to set the newest against.
    while (this.#points.length > 2 && this.#points[1]!.at <= at - WINDOW_MS) this.#points.shift();
  }

  reset(): void {
    this.#points = [];
  }

  /** Bytes a second; undefined: it has not gone on for long enough. */
  perSecond(now: number): number | undefined {
    const [first, last] = [this.#points[0], this.#points.at(-1)];
    if (!first || !last || now - first.at < LEAST_MS) return undefined;
    return ((last.bytes - first.bytes) * 1000) / (now - first.at);
  }
}
