import { type Drafter, NgramDrafts } from '../ngram-drafts.ts';
import type { DecodeRows, DecodeStep, DraftCandidate, Speculating } from '../speculation.ts';

/** Whoever can drafts in every step, all that there is room for, by the drafters that a test gives. */
export class GivenDrafts implements Speculating {
  readonly counts = { drafts: 0, drafted: 0, accepted: 0 };
  readonly hot = false;
  readonly newDrafter: () => Drafter;
  readonly #most: () => number;

  /** `most`: ids of the next draft, at most. */
  constructor(newDrafter: () => Drafter = () => new NgramDrafts(), most: () => number = () => 16) {
    this.newDrafter = newDrafter;
    this.#most = most;
  }

  lengths(_: DecodeRows, free: number, candidates: readonly DraftCandidate[]): readonly number[] | undefined {
    let left = free;
    const lengths = candidates.map(({ draft }) => {
      const length = Math.min(draft.ids.length, left, this.#most());
      left -= length;
      return length;
    });
    return lengths.some((length) => length > 0) ? lengths : undefined;
  }

  verified(_: DraftCandidate, length: number, accepted: number): void {
    this.counts.drafts++;
    this.counts.drafted += length;
    this.counts.accepted += accepted;
  }

  awaited(): void {}
  planned(): void {}

  measured({ draftRows }: DecodeStep): boolean {
    return draftRows === 0;
  }
}
