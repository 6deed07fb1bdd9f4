/** Where a text stands in UTF-8: between characters, or what byte must come next and how many after it. */
const START = 0;
const LAST = 1;
const LAST_TWO = 2;
const LAST_THREE = 3;
const AFTER_E0 = 4;
const AFTER_ED = 5;
const AFTER_F0 = 6;
const AFTER_F4 = 7;
const AFTER_E2 = 8;
const AFTER_E2_80 = 9;
const STATES = 10;
const BROKEN = -1;

/**
 * State after a byte, by RFC 3629's table: no overlong forms, no surrogates, nothing over U+10FFFF. U+2028 and U+2029 are
 * left out too: a dot means them to some regular expressions, and not to others.
 */
function next(state: number, byte: number): number {
  switch (state) {
    case START:
      if (byte < 0x80) return START;
      if (byte < 0xc2) return BROKEN;
      if (byte < 0xe0) return LAST;
      if (byte === 0xe0) return AFTER_E0;
      if (byte === 0xe2) return AFTER_E2;
      if (byte === 0xed) return AFTER_ED;
      if (byte < 0xf0) return LAST_TWO;
      if (byte === 0xf0) return AFTER_F0;
      if (byte < 0xf4) return LAST_THREE;
      return byte === 0xf4 ? AFTER_F4 : BROKEN;
    case LAST:
      return byte >= 0x80 && byte < 0xc0 ? START : BROKEN;
    case LAST_TWO:
      return byte >= 0x80 && byte < 0xc0 ? LAST : BROKEN;
    case LAST_THREE:
      return byte >= 0x80 && byte < 0xc0 ? LAST_TWO : BROKEN;
    case AFTER_E0:
      return byte >= 0xa0 && byte < 0xc0 ? LAST : BROKEN;
    case AFTER_ED:
      return byte >= 0x80 && byte < 0xa0 ? LAST : BROKEN;
    case AFTER_E2:
      if (byte === 0x80) return AFTER_E2_80;
      return byte > 0x80 && byte < 0xc0 ? LAST : BROKEN;
    case AFTER_E2_80:
      return byte >= 0x80 && byte < 0xc0 && byte !== 0xa8 && byte !== 0xa9 ? START : BROKEN;
    case AFTER_F0:
      return byte >= 0x90 && byte < 0xc0 ? LAST_TWO : BROKEN;
    default:
      return byte >= 0x80 && byte < 0x90 ? LAST_TWO : BROKEN;
  }
}

/**
 * Which ids keep an output UTF-8. xgrammar takes any bytes of the right lengths for a character, so that a model's byte
 * tokens could write what no text is.
 */
export class Utf8Masks {
  readonly #bytes: Uint8Array;
  readonly #ends: Uint32Array;
  readonly #words: number;
  readonly #stopIds: readonly number[];
  readonly #masks: (Uint32Array | undefined)[] = new Array(STATES);

  /** `ends`: of each id's bytes in `bytes`. Stop ids may come between characters. */
  constructor(bytes: Uint8Array, ends: Uint32Array, vocabSize: number, stopIds: readonly number[]) {
    this.#bytes = bytes;
    this.#ends = ends;
    this.#words = Math.ceil(vocabSize / 32);
    this.#stopIds = stopIds;
  }

  /** State of an empty output. */
  readonly start = START;

  /** State after an id that the mask of `state` allows. */
  after(state: number, id: number): number {
    if (this.#stopIds.includes(id)) return state;
    let after = state;
    for (let at = this.#ends[id - 1] ?? 0; at < this.#ends[id]! && after !== BROKEN; at++) {
      after = next(after, this.#bytes[at]!);
    }
    return after;
  }

  /** Takes away the ids that would break the text, in place. */
  apply(state: number, mask: Uint32Array): void {
    this.#masks[state] ??= this.#build(state);
    const kept = this.#masks[state];
    for (let word = 0; word < mask.length; word++) mask[word]! &= kept[word]!;
  }

  #build(state: number): Uint32Array {
    const mask = new Uint32Array(this.#words);
    for (let id = 0; id < this.#ends.length; id++) {
      if (this.after(state, id) !== BROKEN) mask[id >> 5]! |= 1 << (id & 31);
    }
    for (const id of this.#stopIds) {
      if (state === START) mask[id >> 5]! |= 1 << (id & 31);
      else mask[id >> 5]! &= ~(1 << (id & 31));
    }
    return mask;
  }
}
