import type { TokenBytes } from './token-bytes.ts';

/** Turns a stream of ids into bytes and text: a character that spans tokens comes out once it is whole. */
export class Detokenizer {
  readonly #tokens: TokenBytes;
  readonly #skipSpecial: boolean;
  readonly #text = new TextDecoder('utf-8', { ignoreBOM: true });
  #toStrip: number;

  constructor(tokens: TokenBytes, options: { readonly skipSpecialTokens: boolean }) {
    this.#tokens = tokens;
    this.#skipSpecial = options.skipSpecialTokens;
    this.#toStrip = tokens.stripStart;
  }

  /** The bytes that `id` adds to the text. */
  pushBytes(id: number): Uint8Array {
    if (this.#skipSpecial && this.#tokens.isSpecial(id)) return new Uint8Array(0);
    let bytes = this.#tokens.bytes(id);
    while (this.#toStrip > 0 && bytes.length > 0) {
      // The decoder strips spaces from the text's start only, and stops at the first other character.
      if (bytes[0] !== 0x20) this.#toStrip = 0;
      else {
        bytes = bytes.subarray(1);
        this.#toStrip--;
      }
    }
    return bytes;
  }

  /** The text that `id` completes; empty while a character is not whole. */
  push(id: number): string {
    return this.#text.decode(this.pushBytes(id), { stream: true });
  }

  /** What is left: replacement characters for a character that never became whole. */
  finish(): string {
    return this.#text.decode();
  }
}
