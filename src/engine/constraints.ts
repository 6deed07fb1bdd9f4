import type { FailureCode } from '../contract/failure-codes.ts';
import type { EngineEvent } from './event.ts';
import { GrammarError, type Grammars } from './grammars.ts';
import { Matching } from './matching.ts';
import type { Sequence } from './sequence.ts';
import type { SequenceEnds } from './sequence-ends.ts';
import { settledWithin } from './settled-within.ts';
import type { WantedRow } from './step-builder.ts';

/** Compiling is bounded where it is done; what takes longer never ends. */
const OPEN_TIMEOUT_MS = 60_000;
/** A step may wait so long for its masks; a row without one is drawn later. */
const PATIENCE_MS = 20;

export interface ConstraintsOptions {
  readonly grammars: Grammars;
  readonly ends: SequenceEnds;
  readonly onEvents: (events: readonly EngineEvent[]) => void;
  readonly now: () => number;
  readonly patienceMs?: number | undefined;
}

/** Follows constrained sequences: opens their matchers, and says which ids their rows may draw. */
export class Constraints {
  readonly #options: ConstraintsOptions;
  readonly #patienceMs: number;

  constructor(options: ConstraintsOptions) {
    this.#options = options;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
  }

  /** Opens a sequence's matcher. Resolves once it may be admitted, or has ended. */
  async open(sequence: Sequence): Promise<void> {
    const { grammars, ends, onEvents, now } = this.#options;
    const { constraint, inputIds } = sequence.request;
    const outputIds = sequence.ids.slice(inputIds.length);
    const opening = grammars.open(constraint!, outputIds, () => !sequence.ended);
    try {
      const matcher = await settledWithin(OPEN_TIMEOUT_MS, opening, 'the constraint was never compiled');
      sequence.matching = new Matching(matcher, this.#patienceMs, now);
      if (sequence.ended) sequence.matching.close();
      // Where nothing was made yet, the prompt may still have to be told.
      else if (sequence.matching.finished && sequence.outputLength > 0) {
        onEvents([ends.finish(sequence, sequence.endingAsMet)]);
      } else if (sequence.ending) onEvents([ends.finish(sequence, sequence.ending)]);
    } catch (error) {
      // Should it come after all, nobody wants it.
      void opening.then((matcher) => matcher.close()).catch(() => {});
      const { code, message } = constraintFailure(error);
      ends.failAll([sequence], code, message);
    }
  }

  /**
   * The masks of a step's masked rows, once those of most are known. Rows whose matcher takes too long are withdrawn, and
   * marked, as are those where nothing can be drawn.
   */
  async masks(rows: readonly WantedRow[]): Promise<(Uint32Array | undefined)[]> {
    const pending = rows.flatMap(({ sequence: { ended, matching }, guesses = 0 }) =>
      ended || !matching ? [] : ((guesses > 0 ? matching.looking : matching.pending) ?? []),
    );
    if (pending.length > 0) await settledOrAfter(this.#patienceMs, Promise.all(pending));
    return rows.map((row) => this.#mask(row));
  }

  #mask(row: WantedRow): Uint32Array | undefined {
    const { sequence, guesses = 0 } = row;
    const { matching } = sequence;
    if (sequence.ended || !matching) return undefined;
    if (matching.pending && guesses === 0) {
      matching.late = true;
      row.undrawn = 'late';
      sequence.withdrawDraw();
      return undefined;
    }
    const allowed = matching.allowed(sequence.withheldIds(guesses), guesses);
    if (typeof allowed === 'object') return allowed.mask;
    row.undrawn = allowed;
    return undefined;
  }
}

/** What a client is told of a constraint that failed. */
export function constraintFailure(error: unknown): { code: FailureCode; message: string } {
  if (error instanceof GrammarError) return { code: error.code, message: error.message };
  return { code: 'internal', message: error instanceof Error ? error.message : 'the constraint failed' };
}

/** Resolves once `promise` does, or after `ms`; rejects as it does. */
function settledOrAfter(ms: number, promise: Promise<unknown>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    promise.then(() => resolve(), reject).finally(() => clearTimeout(timer));
  });
}
