import { Detokenizer } from '../checkpoint/detokenizer.ts';
import type { TokenBytes } from '../checkpoint/token-bytes.ts';

/**
 * Finds stop strings in the bytes of an output, across tokens. Strings hold bytes here, one a character, so that a
 * stop string matches even where a token ends inside a character.
 */
export class StopMatcher {
  readonly #stops: readonly { readonly text: string; readonly bytes: string }[];
  readonly #detokenizer: Detokenizer;
  readonly #keep: number;
  /** The last bytes of the output that a match could begin in. */
  #tail = '';

  constructor(stopStrings: readonly string[], tokens: TokenBytes, options: { readonly skipSpecialTokens: boolean }) {
    const utf8 = new TextEncoder();
    this.#stops = stopStrings.map((text) => ({ text, bytes: byteString(utf8.encode(text)) }));
    this.#keep = Math.max(0, ...this.#stops.map((stop) => stop.bytes.length - 1));
    this.#detokenizer = new Detokenizer(tokens, options);
  }

  /** Takes the next output token; the stop string that it completes, the first in the request's order. */
  push(id: number): string | undefined {
    if (this.#stops.length === 0) return undefined;
    const text = this.#tail + byteString(this.#detokenizer.pushBytes(id));
    this.#tail = text.slice(Math.max(0, text.length - this.#keep));
    return this.#stops.find((stop) => text.includes(stop.bytes))?.text;
  }
}

function byteString(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
