import type { StepThrottle } from '../engine/step-throttle.ts';
import { BusyShare } from './busy-share.ts';

/** Less than this is no serving any more. */
export const LEAST_SHARE = 0.05;
/** A rest never lasts longer, whatever the step took: the relay takes a node that says nothing for 120 s for stuck. */
const MOST_REST_MS = 20_000;
/** So soon a rest notices that the share was changed. */
const SLICE_MS = 250;
const WINDOW_SECONDS = 10;

export interface Clock {
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
}

const CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/**
 * Lets an engine have a share of the GPU's time: steps run one at a time, and after one of t ms the GPU rests for
 * t · (1 − share) / share.
 */
export class DutyCycle implements StepThrottle {
  readonly #clock: Clock;
  readonly #busy: BusyShare;
  #share = 1;
  #lastEnd = Number.NEGATIVE_INFINITY;
  #lastMs = 0;

  constructor(clock: Clock = CLOCK) {
    this.#clock = clock;
    this.#busy = new BusyShare(WINDOW_SECONDS, clock.now);
  }

  /** From LEAST_SHARE to 1; counts at once. */
  set share(share: number) {
    this.#share = Math.min(1, Math.max(LEAST_SHARE, share));
  }

  get overlap(): boolean {
    return this.#share === 1;
  }

  turn(): Promise<void> | undefined {
    return this.#restMs() > 0 ? this.#rest() : undefined;
  }

  took(ms: number): void {
    this.#lastEnd = this.#clock.now();
    this.#lastMs = ms;
    this.#busy.add(ms);
  }

  /** Share of the last ten seconds in which a step ran, as measured. */
  measured(): number {
    return this.#busy.share();
  }

  async #rest(): Promise<void> {
    for (let ms = this.#restMs(); ms > 0; ms = this.#restMs()) await this.#clock.sleep(Math.min(SLICE_MS, ms));
  }

  #restMs(): number {
    const whole = Math.min(MOST_REST_MS, (this.#lastMs * (1 - this.#share)) / this.#share);
    return this.#lastEnd + whole - this.#clock.now();
  }
}
