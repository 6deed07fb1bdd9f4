import { Code, ConnectError } from '@connectrpc/connect';
import { TokenBucket } from './token-bucket.ts';

/** What one of a kind may ask for. */
export interface Limit {
  /** Requests a second in the long run; twice as many at once. */
  readonly rate: number;
  readonly inFlight: number;
  /** Bytes a second of request bodies. */
  readonly bytes: number;
}

/** Hosts and sessions that are known at a time: each costs some hundred bytes. */
const MAX_KNOWN = 65_536;
/** Looking through all of them takes some milliseconds: not for each newcomer. */
const FORGET_EVERY_MS = 1_000;

interface Known {
  readonly requests: TokenBucket;
  readonly bytes: TokenBucket;
  readonly limit: Limit;
  inFlight: number;
}

/** A request that was let in. */
export interface Admission {
  /** Counts bytes of its body before they come. Throws as `takeBytes` does. */
  expectBytes(count: number): void;
  /** Counts bytes of its body, unless they were expected. Throws ConnectError (RESOURCE_EXHAUSTED) where that is too much. */
  takeBytes(count: number): void;
  /** It is over; harmless when done twice. */
  release(): void;
}

/** Bounds what each session and each host asks for, so that what one does in excess is refused to it and to nobody else. */
export class RequestLimiter {
  private readonly known = new Map<string, Known>();
  private readonly largestBody: number;
  private readonly now: () => number;
  private forgotAt = Number.NEGATIVE_INFINITY;

  /** A body of `largestBody` bytes comes through at any rate. */
  constructor(largestBody: number, now: () => number = () => performance.now()) {
    this.largestBody = largestBody;
    this.now = now;
  }

  get size(): number {
    return this.known.size;
  }

  /** Lets a request in for all of `keys`, each with its limit, or for none. Throws ConnectError (RESOURCE_EXHAUSTED). */
  admit(keys: readonly (readonly [string, Limit])[]): Admission {
    const all = keys.map(([key, limit]) => this.find(key, limit));
    const now = this.now();
    const full = all.find((one) => one.inFlight >= one.limit.inFlight);
    if (full) throw new ConnectError(`More than ${full.limit.inFlight} requests at a time.`, Code.ResourceExhausted);
    pay(
      all.map((one) => one.requests),
      1,
      now,
      'Requests come too fast',
    );
    for (const one of all) one.inFlight++;
    let released = false;
    let expected = 0;
    const payBytes = (count: number) =>
      pay(
        all.map((one) => one.bytes),
        count,
        this.now(),
        'Bytes come too fast',
      );
    return {
      expectBytes(count) {
        payBytes(count);
        expected += count;
      },
      takeBytes(count) {
        const more = Math.max(0, count - expected);
        expected -= count - more;
        if (more > 0) payBytes(more);
      },
      release() {
        if (released) return;
        released = true;
        for (const one of all) one.inFlight--;
      },
    };
  }

  private find(key: string, limit: Limit): Known {
    const found = this.known.get(key);
    if (found) return found;
    if (this.known.size >= MAX_KNOWN) this.forgetIdle();
    if (this.known.size >= MAX_KNOWN) throw new ConnectError('Too many hosts at a time.', Code.ResourceExhausted);
    const now = this.now();
    const one = {
      requests: new TokenBucket(limit.rate, 2 * limit.rate, now),
      bytes: new TokenBucket(limit.bytes, Math.max(2 * limit.bytes, this.largestBody), now),
      limit,
      inFlight: 0,
    };
    this.known.set(key, one);
    return one;
  }

  /** Who asks for nothing, and has for long enough, is as one who never came. */
  private forgetIdle(): void {
    const now = this.now();
    if (now - this.forgotAt < FORGET_EVERY_MS) return;
    this.forgotAt = now;
    for (const [key, one] of this.known) {
      if (one.inFlight === 0 && one.requests.isFull(now) && one.bytes.isFull(now)) this.known.delete(key);
    }
  }
}

/** From all of them, or from none. */
function pay(buckets: readonly TokenBucket[], amount: number, now: number, what: string): void {
  const waitMs = Math.max(0, ...buckets.map((bucket) => bucket.waitMs(amount, now)));
  if (waitMs > 0) {
    const wait = Math.max(1, Math.ceil(waitMs / 1000));
    throw new ConnectError(`${what}: try again in ${wait} s.`, Code.ResourceExhausted, { 'retry-after': String(wait) });
  }
  for (const bucket of buckets) bucket.take(amount);
}
