import { Acceptance } from './acceptance.ts';
import { type Draft, type Drafter, NgramDrafts } from './ngram-drafts.ts';
import { StepCosts } from './step-costs.ts';

/** A step with drafts has to promise so many tokens a time more than one without. */
const LEAST_GAIN = 1.08;
/** Sequences that have no draft in it may wait so much longer for their token. */
const MOST_HARM = 1.1;
/** What may be lost on finding out whether drafts win: a share of all time, and never more than some steps at once. */
const PROBE_SHARE = 0.02;
const MOST_PROBE_STEPS = 3;
/** Drafts pause once they lost so many steps' time on balance. */
const MOST_LOST_STEPS = 3;
const PROBE_ROWS = 3;
/** Before anything is known: every second guess is right. */
const FIRST_GUESS = 0.5;
/** Steps after one with a draft that are not put together: the next draft may be there at any token. */
const HOT_STEPS = 3;
/** Steps that were planned before one that is measured. */
const STEPS_BEHIND = 2;

/** A sequence that could draft. */
export interface DraftCandidate {
  readonly draft: Draft;
  readonly acceptance: Acceptance;
}

/** Counted since the start. */
export interface SpeculationCounts {
  /** Drafts that were verified, their ids, and those of them that were right. */
  readonly drafts: number;
  readonly drafted: number;
  readonly accepted: number;
}

/** Who drafts in which step, and how much. */
export interface Speculating {
  readonly counts: SpeculationCounts;
  newDrafter(): Drafter;
  /**
   * Ids of each candidate's draft that the next step of `sequences` decode rows verifies, at most `free` in all; undefined: it
   * has none.
   */
  lengths(sequences: number, free: number, candidates: readonly DraftCandidate[]): readonly number[] | undefined;
  /** A draft of `length` ids was verified. */
  verified(candidate: DraftCandidate, length: number, accepted: number): void;
  /** A step was planned. */
  planned(drafted: boolean): void;
  /** Steps that were measured; `waited`: the step before was waited for. */
  plainStep(step: {
    readonly sequences: number;
    readonly steps: number;
    readonly ms: number;
    readonly waited: boolean;
  }): void;
  draftedStep(step: {
    readonly sequences: number;
    readonly rows: number;
    readonly tokens: number;
    readonly ms: number;
  }): void;
  /** The next draft may be there soon: steps are not put together. */
  readonly hot: boolean;
}

/** Drafts where they win by what was measured on this adapter: of acceptance, and of steps' times by their rows. */
export class Speculation implements Speculating {
  readonly counts = { drafts: 0, drafted: 0, accepted: 0 };
  readonly #costs = new StepCosts();
  /** Of all sequences' drafts, by the ids that matched. */
  readonly #byMatch = new Map<number, Acceptance>();
  /** Milliseconds that may be lost: a share of the time of plain steps, and what drafts won or lost. */
  #allowance = 0;
  #sinceDraft = Number.POSITIVE_INFINITY;

  newDrafter(): Drafter {
    return new NgramDrafts();
  }

  get hot(): boolean {
    return this.#sinceDraft <= HOT_STEPS;
  }

  lengths(sequences: number, free: number, candidates: readonly DraftCandidate[]): readonly number[] | undefined {
    const plainMs = this.#costs.plain(sequences);
    if (plainMs === undefined || this.#allowance < -MOST_LOST_STEPS * plainMs) return undefined;
    const guesses = candidates.flatMap((candidate, index) => {
      const rate = this.#rate(candidate);
      return candidate.draft.ids.map((_, i) => ({ index, chance: rate ** (i + 1) }));
    });
    // Of one draft earlier guesses are likelier, so that they come first.
    guesses.sort((a, b) => b.chance - a.chance);
    let tokens = sequences;
    let best = { guesses: 0, gain: 0, ms: 0 };
    let probe: { readonly guesses: number; readonly lost: number } | undefined;
    for (const [i, { chance }] of guesses.slice(0, free).entries()) {
      tokens += chance;
      const ms = this.#costs.drafted(sequences + i + 1, sequences, plainMs);
      const gain = (tokens * plainMs) / (sequences * ms);
      if (gain > best.gain) best = { guesses: i + 1, gain, ms };
      const lost = ms - (tokens * plainMs) / sequences;
      if (i < PROBE_ROWS && lost <= this.#allowance) probe = { guesses: i + 1, lost };
    }
    const chosen = this.#wins(best, guesses, sequences, plainMs) ? best.guesses : (probe?.guesses ?? 0);
    if (chosen === 0) return undefined;
    const lengths = candidates.map(() => 0);
    for (const { index } of guesses.slice(0, chosen)) lengths[index]!++;
    return lengths;
  }

  verified({ draft, acceptance }: DraftCandidate, length: number, accepted: number): void {
    const wrong = accepted < length ? 1 : 0;
    acceptance.add(accepted, wrong);
    this.#ofMatch(draft.match).add(accepted, wrong);
    this.counts.drafts++;
    this.counts.drafted += length;
    this.counts.accepted += accepted;
  }

  planned(drafted: boolean): void {
    this.#sinceDraft = drafted ? 0 : this.#sinceDraft + 1;
  }

  plainStep({ sequences, steps, ms, waited }: Parameters<Speculating['plainStep']>[0]): void {
    const plainMs = this.#costs.plain(sequences);
    this.#earn(PROBE_SHARE * ms, plainMs ?? ms);
    // Steps by themselves soon after a draft aren't what there would be without: they are its cost.
    const disturbed = waited || this.#sinceDraft <= HOT_STEPS + STEPS_BEHIND;
    if (disturbed && plainMs !== undefined) this.#allowance -= Math.max(0, ms - plainMs * steps);
    else this.#costs.addPlain(sequences, ms / steps);
  }

  draftedStep({ sequences, rows, tokens, ms }: Parameters<Speculating['draftedStep']>[0]): void {
    this.#costs.addDrafted(rows, ms);
    const plainMs = this.#costs.plain(sequences);
    if (plainMs !== undefined) this.#earn((tokens * plainMs) / sequences - ms, plainMs);
  }

  #wins(
    best: { readonly guesses: number; readonly gain: number; readonly ms: number },
    guesses: readonly { readonly index: number }[],
    sequences: number,
    plainMs: number,
  ): boolean {
    if (best.gain < LEAST_GAIN) return false;
    const drafting = new Set(guesses.slice(0, best.guesses).map(({ index }) => index)).size;
    return drafting === sequences || best.ms <= MOST_HARM * plainMs;
  }

  #earn(ms: number, plainMs: number): void {
    this.#allowance = Math.min(this.#allowance + ms, MOST_PROBE_STEPS * plainMs);
  }

  #rate({ draft, acceptance }: DraftCandidate): number {
    return acceptance.rate(this.#ofMatch(draft.match).rate(FIRST_GUESS));
  }

  #ofMatch(match: number): Acceptance {
    const known = this.#byMatch.get(match) ?? new Acceptance();
    this.#byMatch.set(match, known);
    return known;
  }
}
