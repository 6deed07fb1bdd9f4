import { Acceptance } from './acceptance.ts';
import { DraftAccount } from './draft-account.ts';
import { type Draft, type Drafter, NgramDrafts } from './ngram-drafts.ts';
import { PlainSpeed } from './plain-speed.ts';
import { StepCosts } from './step-costs.ts';

/** A step with drafts has to promise so many tokens a time more than plain decoding. */
const LEAST_GAIN = 1.08;
/** Sequences that have no draft in it may wait so much longer for their token. */
const MOST_HARM = 1.1;
/** Drafts of a stretch that need not promise anything, with guesses at least so sure: they find out. */
const PROBES = 2;
const LEAST_CHANCE = 0.5;
/** Before anything is known: every second guess is right. */
const FIRST_GUESS = 0.5;
/** Steps without a draft that end a stretch. */
const MOST_WITHOUT = 3;
/** A new single step's weight in their average. */
const WEIGHT = 0.25;
/** Steps behind a stretch whose time is its cost too: nothing overlaps with the first, and some may be planned already. */
const TAIL_STEPS = 3;

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

/** The decode rows of a step. */
export interface DecodeRows {
  readonly sequences: number;
  /** Several steps at once would do for them. */
  readonly repeatable: boolean;
}

/** A step of decode rows that was done. */
export interface DecodeStep extends DecodeRows {
  /** Guesses, on top of a row for each sequence. */
  readonly draftRows: number;
  /** Decode steps for one readback. */
  readonly steps: number;
  /** What its rows brought. */
  readonly tokens: number;
  /** From the end of the step before, if there was anything to do meanwhile. */
  readonly ms: number;
}

/** Who drafts in which step, and how much. */
export interface Speculating {
  readonly counts: SpeculationCounts;
  newDrafter(): Drafter;
  /** Ids of each candidate's draft that the next step verifies, at most `free` in all; undefined: it has none. */
  lengths(rows: DecodeRows, free: number, candidates: readonly DraftCandidate[]): readonly number[] | undefined;
  /** A draft of `length` ids was verified. */
  verified(candidate: DraftCandidate, length: number, accepted: number): void;
  /** No step is planned until what is being drawn is there: one is to draft then. */
  awaited(): void;
  /** A step was planned. */
  planned(drafted: boolean): void;
  /** A step was done. False: it took what it took because of drafts. */
  measured(step: DecodeStep): boolean;
  /** The next draft may be there soon: steps are not put together. */
  readonly hot: boolean;
}

/**
 * Drafts in stretches, all of whose time, with that of the steps behind each, is held against plain decoding's as it was measured
 * before. What they lose is at most a share of the time without them; see DraftAccount.
 */
export class Speculation implements Speculating {
  readonly counts = { drafts: 0, drafted: 0, accepted: 0 };
  readonly #plain = new PlainSpeed();
  readonly #costs = new StepCosts();
  /** By the power of two that a number of sequences is near, and whether steps may be put together. */
  readonly #accounts = new Map<string, DraftAccount>();
  /** Of all sequences' drafts, by the ids that matched. */
  readonly #byMatch = new Map<number, Acceptance>();
  /** The stretch under way, or the one whose tail is: what it won, by account. */
  #won: Map<DraftAccount, number> | undefined;
  #drafting = false;
  #drafts = 0;
  #without = 0;
  #tail = 0;
  /** Lately, of a step that was the only one of its readback. */
  #singleMs = 0;
  /** The step before took far longer than such steps do. */
  #heldUp = false;

  newDrafter(): Drafter {
    return new NgramDrafts();
  }

  get hot(): boolean {
    return this.#drafting;
  }

  lengths(rows: DecodeRows, free: number, candidates: readonly DraftCandidate[]): readonly number[] | undefined {
    const { sequences, repeatable } = rows;
    const plainMs = this.#plain.stepMs(sequences, repeatable);
    if (plainMs === undefined || candidates.length === 0) return undefined;
    const account = this.#account(rows);
    if (
      this.#drafting ? !account.mayGoOn(plainMs) : this.#tail > 0 || !account.mayBegin(plainMs, this.#stakeMs(plainMs))
    ) {
      return undefined;
    }
    const guesses = candidates.flatMap((candidate, index) => {
      const rate = this.#rate(candidate);
      return candidate.draft.ids.map((_, i) => ({ index, chance: rate ** (i + 1) }));
    });
    // Of one draft earlier guesses are likelier, so that they come first.
    guesses.sort((a, b) => b.chance - a.chance);
    let tokens = sequences;
    let best = { guesses: 0, gain: 0, ms: 0 };
    let sure = Math.min(1, free);
    for (const [i, { chance }] of guesses.slice(0, free).entries()) {
      tokens += chance;
      const ms = this.#costs.ms(sequences + i + 1, sequences, plainMs);
      const gain = (tokens * plainMs) / (sequences * ms);
      if (gain > best.gain) best = { guesses: i + 1, gain, ms };
      if (chance >= LEAST_CHANCE) sure = i + 1;
    }
    const wins = best.gain >= LEAST_GAIN && harmsNobody(best, guesses, sequences, plainMs);
    const probes = !this.#drafting || this.#drafts < PROBES;
    const chosen = wins ? best.guesses : probes ? sure : 0;
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

  awaited(): void {
    if (this.#drafting) return;
    this.#won ??= new Map();
    this.#drafting = true;
    this.#drafts = 0;
    this.#without = 0;
  }

  planned(drafted: boolean): void {
    if (drafted) {
      this.awaited();
      this.#drafts++;
      this.#without = 0;
    } else if (this.#drafting && ++this.#without > MOST_WITHOUT) this.#end();
  }

  measured(step: DecodeStep): boolean {
    const { sequences, repeatable, draftRows, steps, tokens, ms } = step;
    const rows = { sequences, repeatable };
    const plainMs = this.#plain.stepMs(sequences, repeatable);
    const own = this.#own(step, plainMs);
    if (draftRows > 0) this.#costs.add(sequences + draftRows, own);
    if (!this.#won) {
      if (draftRows > 0) return false;
      if (steps === 1) this.#singleMs = this.#singleMs === 0 ? ms : this.#singleMs + WEIGHT * (own - this.#singleMs);
      this.#plain.add(sequences, repeatable, steps, ms);
      if (plainMs !== undefined) this.#account(rows).plain(steps, ms, plainMs, this.#stakeMs(plainMs));
      return true;
    }
    if (plainMs === undefined) {
      // There is nothing to hold it against.
      if (this.#drafting) this.#end();
    } else {
      const account = this.#account(rows);
      const wouldTake = (tokens * plainMs) / sequences;
      account.drafting(own, wouldTake, plainMs);
      this.#won.set(account, (this.#won.get(account) ?? 0) + wouldTake - own);
      if (this.#drafting && !account.mayGoOn(plainMs)) {
        this.#end();
        return false;
      }
    }
    if (!this.#drafting && --this.#tail <= 0) {
      for (const [account, won] of this.#won) account.ended(won);
      this.#won = undefined;
    }
    return false;
  }

  /**
   * Of a step's time what it took by itself: a pause of everything, such as a collection of garbage, is no loss of drafts. What is
   * as slow twice in a row is.
   */
  #own({ sequences, draftRows, steps, ms }: DecodeStep, plainMs: number | undefined): number {
    if (plainMs === undefined) return ms;
    const single = Math.max(this.#singleMs, plainMs);
    const most =
      draftRows > 0
        ? 2 * Math.max(single, this.#costs.ms(sequences + draftRows, sequences, plainMs))
        : single + steps * plainMs;
    const pause = ms > most && !this.#heldUp;
    this.#heldUp = ms > most;
    return pause ? most : ms;
  }

  /** The draft's step, and those behind it, each have a readback of their own. */
  #stakeMs(plainMs: number): number {
    return (1 + TAIL_STEPS) * Math.max(0, this.#singleMs - plainMs);
  }

  #end(): void {
    this.#drafting = false;
    this.#tail = TAIL_STEPS;
  }

  #account({ sequences, repeatable }: DecodeRows): DraftAccount {
    const key = `${Math.ceil(Math.log2(sequences))} ${repeatable}`;
    const account = this.#accounts.get(key) ?? new DraftAccount();
    this.#accounts.set(key, account);
    return account;
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

/** Every sequence drafts, or the step takes little more than a plain one. */
function harmsNobody(
  best: { readonly guesses: number; readonly ms: number },
  guesses: readonly { readonly index: number }[],
  sequences: number,
  plainMs: number,
): boolean {
  const drafting = new Set(guesses.slice(0, best.guesses).map(({ index }) => index)).size;
  return drafting === sequences || best.ms <= MOST_HARM * plainMs;
}
