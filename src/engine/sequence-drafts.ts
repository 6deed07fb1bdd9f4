import { Acceptance } from './acceptance.ts';
import type { Drafter } from './ngram-drafts.ts';
import type { DraftCandidate } from './speculation.ts';

/** What a sequence drafts by, and the draft that the step under way verifies. */
export class SequenceDrafts {
  /** From its first draft on. */
  drafter: Drafter | undefined;
  /** How often its drafts were right. */
  readonly acceptance = new Acceptance();
  /** Of the draft under way. */
  guesses: readonly number[] | undefined;
  candidate: DraftCandidate | undefined;
  /** What the sequence drew last is with its matcher, and isn't what its slot holds: a guess that was refused came after it. */
  slotIsAhead = false;
}
