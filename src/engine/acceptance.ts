/** Of so many guesses the latest ones count as one. */
const MEMORY = 24;
/** What was known before counts as so many guesses. */
const PRIOR_WEIGHT = 2;
/** Surer than that nothing is. */
const MOST = 0.97;

/** How often a guess was right lately, given that those before it in its draft were. */
export class Acceptance {
  #right = 0;
  #tried = 0;

  /** A draft was verified: so many of its guesses were right, before one that wasn't, if one wasn't. */
  add(right: number, wrong: 0 | 1): void {
    const fade = Math.max(0, 1 - (right + wrong) / MEMORY);
    this.#right = this.#right * fade + right;
    this.#tried = this.#tried * fade + right + wrong;
  }

  /** `prior`: what is expected where little was tried. */
  rate(prior: number): number {
    return Math.min(MOST, (this.#right + PRIOR_WEIGHT * prior) / (this.#tried + PRIOR_WEIGHT));
  }
}
