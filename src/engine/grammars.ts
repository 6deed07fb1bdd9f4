import type { Constraint } from './request.ts';

/** A constraint that can't be served; the message is for the client and holds nothing of its text but where it fails. */
export class GrammarError extends Error {
  override readonly name = 'GrammarError';
  /** The constraint itself is wrong, or it took more time or memory than one may have; else the worker failed. */
  readonly code: 'invalid_argument' | 'resource_exhausted' | 'internal';

  constructor(code: GrammarError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What may come next. */
export interface GrammarState {
  /** A bit per id, least significant first, [ceil(vocabSize / 32)]; undefined: every id may come. */
  readonly mask: Uint32Array | undefined;
  /** The output is complete and nothing may follow: a stop token was taken where the constraint allows the end. */
  readonly finished: boolean;
}

/** One sequence's way through its constraint. */
export interface GrammarMatcher {
  readonly state: GrammarState;
  /**
   * Takes drawn ids; the state after them, whose mask has at least one bit unless it is finished. Rejects with
   * GrammarError: 'invalid_argument' where the constraint lets nothing of this vocabulary follow or takes too long,
   * 'internal' where an id can't come or no worker can be had. The output can't go on then.
   */
  accept(...ids: readonly number[]): Promise<GrammarState>;
  /**
   * The states that ids would lead to, one after each, up to the first that can't come, ends the output or lets nothing follow; nothing is
   * taken. Rejects where its worker is lost, which `accept` then makes good.
   */
  look(ids: readonly number[]): Promise<readonly GrammarState[]>;
  /** Frees what the worker holds for it. */
  close(): void;
}

/** Compiles constraints and follows outputs through them, away from the engine's own thread. */
export interface Grammars {
  /**
   * A matcher that has taken `outputIds`. Compiled constraints are kept and shared. Rejects with GrammarError, within
   * a bounded time; also where no first token is possible, or once `isWanted` says no before its turn has come.
   */
  open(constraint: Constraint, outputIds: readonly number[], isWanted?: () => boolean): Promise<GrammarMatcher>;
  /** Ends its worker. */
  destroy(): void;
}
