import type { Scheduler } from './scheduler.ts';

/** How old the count may be. */
const MOST_AGE_MS = 250;

/** Tokens of waiting sequences that no cached prefix covers. It looks each up, so not for every report. */
export class UncachedTokens {
  readonly #scheduler: Scheduler;
  readonly #now: () => number;
  #at = Number.NEGATIVE_INFINITY;
  #tokens = 0;

  constructor(scheduler: Scheduler, now: () => number) {
    this.#scheduler = scheduler;
    this.#now = now;
  }

  get count(): number {
    if (this.#scheduler.waiting.size === 0) return 0;
    const now = this.#now();
    if (now - this.#at >= MOST_AGE_MS) {
      this.#tokens = this.#look();
      this.#at = now;
    }
    return this.#tokens;
  }

  /** A prompt that samples share is computed once: by the first of them that runs. */
  #look(): number {
    const { running, waiting, limits } = this.#scheduler;
    const computing = new Set(running.map(({ request }) => request));
    let tokens = 0;
    for (const sequence of waiting) {
      const { ids, request } = sequence;
      const shared = limits.prefixCache && computing.has(request) ? request.inputIds.length : 0;
      tokens += ids.length - Math.max(shared, this.#scheduler.cachedTokens(sequence));
      computing.add(request);
    }
    return tokens;
  }
}
