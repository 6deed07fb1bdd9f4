import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import type { FinishReason } from './event.ts';
import { StopMatcher } from './stop-matcher.ts';
import type { Stops } from './stops.ts';

/** Why a sequence ended, and what ended it. */
export interface Ending {
  readonly reason: FinishReason;
  readonly matched: number | string | undefined;
}

/** What in one output's tokens ends it: stop tokens, then stop strings. */
export class OutputStops {
  readonly #stops: Stops;
  readonly #matcher: StopMatcher;

  constructor(stops: Stops, tokens: TokenBytes, options: { readonly skipSpecialTokens: boolean }) {
    this.#stops = stops;
    this.#matcher = new StopMatcher(stops, tokens, options);
  }

  /** Takes the next output token, and says what it ends by, if it does. */
  push(id: number): Ending | undefined {
    const matched = this.#matcher.push(id);
    if (this.#stops.tokens.has(id)) return { reason: 'stop', matched: id };
    return matched === undefined ? undefined : { reason: 'stop', matched };
  }
}
