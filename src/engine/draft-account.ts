/** What drafts may lose: a share of the time of plain decoding. */
const LOSS_SHARE = 0.03;
/** More than so many steps' time, or what a stretch puts at stake, is not saved up. */
const MOST_SAVED_STEPS = 4;
/** A stretch starts with so much. */
const LEAST_SAVED_STEPS = 1;
/** Each loss in a row doubles the wait, so often. */
const MOST_DOUBLINGS = 5;
/** Stretches last so many plain steps' time together, before plain decoding is measured anew by so many steps. */
const STRETCH_STEPS = 400;
const FRESH_STEPS = 16;

/** Won and lost by drafts in batches of about one size, in milliseconds against plain decoding. */
export class DraftAccount {
  #saved = 0;
  /** Plain decoding's time before the next stretch. */
  #wait = 0;
  #losses = 0;
  #draftingMs = 0;
  #freshSteps = 0;

  /** A stretch may start; `plainMs`: a plain step's time, `stakeMs`: what it loses at least where it wins nothing. */
  mayBegin(plainMs: number, stakeMs: number): boolean {
    const least = Math.max(LEAST_SAVED_STEPS * plainMs, stakeMs);
    return this.#wait <= 0 && this.#saved >= least && this.#draftingMs === 0;
  }

  /** A stretch may go on. */
  mayGoOn(plainMs: number): boolean {
    return this.#saved >= 0 && this.#draftingMs < STRETCH_STEPS * plainMs;
  }

  /** Steps without anything of drafts. */
  plain(steps: number, ms: number, plainMs: number, stakeMs: number): void {
    this.#saved = Math.min(this.#saved + LOSS_SHARE * ms, Math.max(MOST_SAVED_STEPS * plainMs, stakeMs));
    this.#wait -= ms;
    this.#freshSteps += steps;
    if (this.#freshSteps >= FRESH_STEPS) this.#draftingMs = 0;
  }

  /** A step of a stretch, or right behind it, took `ms` where plain decoding would have taken `wouldTake`. */
  drafting(ms: number, wouldTake: number, plainMs: number): void {
    this.#saved = Math.min(this.#saved + wouldTake - ms, MOST_SAVED_STEPS * plainMs);
    this.#draftingMs += ms;
    this.#freshSteps = 0;
  }

  /** A stretch is over, with what it won in all. */
  ended(won: number): void {
    this.#losses = won < 0 ? Math.min(this.#losses + 1, MOST_DOUBLINGS + 1) : 0;
    this.#wait = won < 0 ? (-won / LOSS_SHARE) * 2 ** (this.#losses - 1) : 0;
  }
}
