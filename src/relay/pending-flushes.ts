import { PendingAnswers } from './pending-answers.ts';

/** What a node's prefix cache gave back. */
export interface Flushed {
  readonly freedTokens: number;
  /** What stayed cached, locked by what runs; undefined where the node doesn't tell. */
  readonly keptTokens: number | undefined;
}

/** The flushes that one session's node was asked for and has not answered. */
export class PendingFlushes extends PendingAnswers<Flushed> {
  constructor() {
    super('flush');
  }
}
