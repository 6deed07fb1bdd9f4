import { Detokenizer } from '../checkpoint/detokenizer.ts';
import type { TokenBytes } from '../checkpoint/token-bytes.ts';
import { byteString, type Stops } from './stops.ts';

/**
 * Finds stop strings in the bytes of an output, across tokens. Strings hold bytes here, one a character, so that a
 * stop string matches even where a token ends inside a character.
 */
export class StopMatcher {
  readonly #stops: Stops;
  readonly #detokenizer: Detokenizer;
  /** The last bytes of the output that a match could begin in. */
  #tail = '';

  constructor(stops: Stops, tokens: TokenBytes, options: { readonly skipSpecialTokens: boolean }) {
    this.#stops = stops;
    this.#detokenizer = new Detokenizer(tokens, options);
  }

  /** Takes the next output token; the stop string that it completes, the first in the request's order. */
  push(id: number): string | undefined {
    const { strings, keptBytes } = this.#stops;
    if (strings.length === 0) return undefined;
    const text = this.#tail + byteString(this.#detokenizer.pushBytes(id));
    this.#tail = text.slice(Math.max(0, text.length - keptBytes));
    return strings.find((stop) => text.includes(stop.bytes))?.text;
  }
}
