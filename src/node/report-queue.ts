/** What one Report carries at most: a message stays far under the relay's limits. One event may weigh more. */
const BATCH_EVENTS = 256;
const BATCH_WEIGHT = 250_000;

export interface ReportBatch<Event> {
  /** 0 is a heartbeat: no events, nothing to acknowledge. */
  readonly seq: bigint;
  readonly events: readonly Event[];
}

/**
 * Events on their way to the relay. A batch keeps its seq and its events until it is acknowledged, so that a Report
 * whose answer was lost is sent again as it was and the relay can drop what it has seen.
 */
export class ReportQueue<Event> {
  #waiting: Event[] = [];
  #sent: ReportBatch<Event> | undefined;
  #lastSeq = 0n;
  #wake: (() => void) | undefined;
  #poked = false;
  readonly #weigh: (event: Event) => number;

  /** `weigh` counts an event's numbers. */
  constructor(weigh: (event: Event) => number = () => 1) {
    this.#weigh = weigh;
  }

  get empty(): boolean {
    return this.#waiting.length === 0 && this.#sent === undefined;
  }

  /** Whether what is pushed now goes with the next report: nothing is to go again, and no whole report waits. */
  get hasRoom(): boolean {
    return this.#sent === undefined && this.#waiting.length < BATCH_EVENTS / 2;
  }

  push(events: readonly Event[]): void {
    if (events.length === 0) return;
    this.#waiting.push(...events);
    this.#wake?.();
  }

  /** Has the next report sent at once, events or not: the load has news. */
  poke(): void {
    this.#poked = true;
    this.#wake?.();
  }

  /** The batch to send now: the unacknowledged one, else the next, else a heartbeat. */
  next(): ReportBatch<Event> {
    if (this.#sent === undefined && this.#waiting.length > 0) {
      this.#lastSeq++;
      this.#sent = { seq: this.#lastSeq, events: this.#waiting.splice(0, this.#batchLength()) };
    }
    return this.#sent ?? { seq: 0n, events: [] };
  }

  /** As many of those that wait as one report carries; at least one. */
  #batchLength(): number {
    const most = Math.min(BATCH_EVENTS, this.#waiting.length);
    let weight = 0;
    for (let count = 0; count < most; count++) {
      weight += this.#weigh(this.#waiting[count] as Event);
      if (weight > BATCH_WEIGHT && count > 0) return count;
    }
    return most;
  }

  /** The relay has taken in all reports up to `seq`. */
  acknowledge(seq: bigint): void {
    if (this.#sent !== undefined && this.#sent.seq <= seq) this.#sent = undefined;
  }

  /** A new session: what was not acknowledged is of no use to it. */
  reset(): void {
    this.#waiting = [];
    this.#sent = undefined;
    this.#lastSeq = 0n;
  }

  /** Resolves when there is something to send, after `ms` at the latest, or when `signal` aborts. */
  wait(ms: number, signal: AbortSignal): Promise<void> {
    const poked = this.#poked;
    this.#poked = false;
    if (!this.empty || poked || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.#wake = undefined;
        this.#poked = false;
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener('abort', done);
      this.#wake = done;
    });
  }
}
