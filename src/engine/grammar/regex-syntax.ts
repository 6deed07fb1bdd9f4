import { type CharSet, charSet, charsOf, complement, union } from './char-set.ts';
import { ConstraintError } from './constraint-error.ts';

/** What a regular expression says. */
export type RegexNode =
  | { readonly type: 'chars'; readonly set: CharSet }
  | { readonly type: 'sequence'; readonly nodes: readonly RegexNode[] }
  | { readonly type: 'choice'; readonly nodes: readonly RegexNode[] }
  | { readonly type: 'repeat'; readonly node: RegexNode; readonly min: number; readonly max: number | undefined }
  | { readonly type: 'start' }
  | { readonly type: 'end' };

const DIGITS = charSet([[0x30, 0x39]]);
const WORD = union(
  DIGITS,
  charSet([
    [0x41, 0x5a],
    [0x61, 0x7a],
  ]),
  charsOf('_'),
);
/** Spaces to Python and to JavaScript. */
const SPACE = charsOf(' \t\n\r\f\v');
/** Spaces to either of them. */
const ANY_SPACE = union(
  charSet([
    [0x09, 0x0d],
    [0x1c, 0x20],
    [0x2000, 0x200a],
  ]),
  charsOf('\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff'),
);
const NOT_WORD = charSet([
  [0, 0x2f],
  [0x3a, 0x40],
  [0x5b, 0x5e],
  [0x60, 0x60],
  [0x7b, 0x7f],
]);
/** What no flavour's dot leaves out, of the lines' ends that models know. */
const DOT = complement(charsOf('\n\r'));
const CLASSES: Readonly<Record<string, CharSet>> = {
  d: DIGITS,
  D: complement(DIGITS),
  w: WORD,
  // Letters of other scripts are words to some flavours.
  W: union(NOT_WORD, charSet([[0x2010, 0x2027]])),
  s: SPACE,
  S: complement(ANY_SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, v: 11, f: 12, '0': 0, a: 7, e: 27 };
const UNSERVED: Readonly<Record<string, string>> = {
  b: 'a word boundary',
  B: 'a word boundary',
  p: 'a Unicode property',
  P: 'a Unicode property',
  k: 'a back reference',
  A: 'the anchor \\A',
  Z: 'the anchor \\Z',
  z: 'the anchor \\z',
  G: 'the anchor \\G',
};
const MOST_DEEP = 100;
const MOST_REPEATS = 999_999;

/**
 * Reads a regular expression as JavaScript and Python mean it, where they agree. Throws ConstraintError naming what is
 * wrong or can't be served: lookaround, back references, boundaries, Unicode properties, flags.
 */
export function parseRegex(text: string): RegexNode {
  return new RegexParser(text).parse();
}

class RegexParser {
  readonly #chars: readonly string[];
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#chars = [...text];
  }

  parse(): RegexNode {
    const node = this.#choice();
    if (this.#at < this.#chars.length) this.#fail('a bracket is closed that was not opened');
    return node;
  }

  #choice(): RegexNode {
    if (++this.#depth > MOST_DEEP) this.#fail(`it is nested over ${MOST_DEEP} deep`);
    const nodes = [this.#sequence()];
    while (this.#take('|')) nodes.push(this.#sequence());
    this.#depth--;
    return nodes.length === 1 ? nodes[0]! : { type: 'choice', nodes };
  }

  #sequence(): RegexNode {
    const nodes: RegexNode[] = [];
    for (;;) {
      const char = this.#chars[this.#at];
      if (char === undefined || char === '|' || char === ')') break;
      nodes.push(this.#repeated(this.#atom()));
    }
    return nodes.length === 1 ? nodes[0]! : { type: 'sequence', nodes };
  }

  #atom(): RegexNode {
    const char = this.#chars[this.#at++]!;
    switch (char) {
      case '(':
        return this.#group();
      case '[':
        return { type: 'chars', set: this.#class() };
      case '.':
        return { type: 'chars', set: DOT };
      case '^':
        return { type: 'start' };
      case '$':
        return { type: 'end' };
      case '\\':
        return { type: 'chars', set: this.#escape(false) };
      case '*':
      case '+':
      case '?':
        return this.#fail('there is nothing to repeat');
      default:
        return { type: 'chars', set: charsOf(char) };
    }
  }

  #group(): RegexNode {
    if (this.#take('?')) {
      if (this.#take('P') || this.#chars[this.#at] === '<') {
        this.#take('<');
        if (this.#chars[this.#at] === '=' || this.#chars[this.#at] === '!') this.#fail('lookbehind is not served');
        while (/^\w$/.test(this.#chars[this.#at] ?? '')) this.#at++;
        if (!this.#take('>')) this.#fail("a group's name is not right");
      } else if (!this.#take(':')) {
        const ahead = this.#chars[this.#at] === '=' || this.#chars[this.#at] === '!';
        this.#fail(ahead ? 'lookahead is not served' : 'flags in a group are not served');
      }
    }
    const node = this.#choice();
    if (!this.#take(')')) this.#fail('a bracket is not closed');
    return node;
  }

  #repeated(node: RegexNode): RegexNode {
    const counts = this.#counts();
    if (counts === undefined) return node;
    if (node.type === 'start' || node.type === 'end') this.#fail('an anchor is repeated');
    const { min, max } = counts;
    if (max !== undefined && min > max) this.#fail('a repetition ends before it starts');
    // Lazy or not, it is the same language.
    this.#take('?');
    if (this.#chars[this.#at] === '+' || this.#counts() !== undefined) this.#fail('a repetition is repeated');
    return { type: 'repeat', node, min, max };
  }

  #counts(): { min: number; max: number | undefined } | undefined {
    if (this.#take('*')) return { min: 0, max: undefined };
    if (this.#take('+')) return { min: 1, max: undefined };
    if (this.#take('?')) return { min: 0, max: 1 };
    if (this.#chars[this.#at] !== '{') return undefined;
    // Seen further than a count may be long: one that is longer must not be taken for something else.
    const text = this.#chars.slice(this.#at, this.#at + 64).join('');
    if (/^\{,\d+(\}|$)/.test(text)) this.#fail('a count without its least is not served');
    const counted = /^\{(\d+)(,(\d*))?(\}|$)/.exec(text);
    const closed = counted?.[4] === '}';
    if (!counted || (!closed && text.length < 64)) return undefined;
    const min = Number(counted[1]);
    const max = counted[2] === undefined ? min : counted[3] ? Number(counted[3]) : undefined;
    if (!closed || Math.max(min, max ?? 0) > MOST_REPEATS) this.#fail(`a count is over ${MOST_REPEATS}`);
    this.#at += counted[0].length;
    return { min, max };
  }

  #class(): CharSet {
    const negated = this.#take('^');
    const ranges: CharSet[] = [];
    for (let first = true; ; first = false) {
      const char = this.#chars[this.#at];
      if (char === undefined) this.#fail('a class is not closed');
      if (char === ']' && !first) break;
      // JavaScript takes [] for nothing, others take the bracket for a member.
      if (char === ']') this.#fail('a class is empty');
      const from = this.#member();
      if (this.#chars[this.#at] === '-' && this.#chars[this.#at + 1] !== ']' && this.#at + 1 < this.#chars.length) {
        this.#at++;
        const to = this.#member();
        const [low, high] = [singleOf(from), singleOf(to)];
        if (low === undefined || high === undefined || low > high) this.#fail("a class's range is not right");
        ranges.push([[low, high]]);
      } else ranges.push(from);
    }
    this.#at++;
    const set = union(...ranges);
    return negated ? complement(set) : set;
  }

  #member(): CharSet {
    const char = this.#chars[this.#at++]!;
    return char === '\\' ? this.#escape(true) : charsOf(char);
  }

  #escape(inClass: boolean): CharSet {
    const char = this.#chars[this.#at++];
    if (char === undefined) return this.#fail('it ends in a backslash');
    if (inClass && char === 'b') return [[8, 8]];
    const unserved = UNSERVED[char];
    if (unserved !== undefined) this.#fail(`${unserved} is not served`);
    if (CLASSES[char]) return CLASSES[char];
    if (char === '0' && /^\d$/.test(this.#chars[this.#at] ?? '')) this.#fail('an octal escape is not served');
    if (char in CONTROLS) return [[CONTROLS[char]!, CONTROLS[char]!]];
    if (/^[1-9]$/.test(char)) this.#fail('a back reference is not served');
    const code = char === 'x' || char === 'u' || char === 'U' ? this.#hex(char) : this.#control(char);
    if (code !== undefined) return [[code, code]];
    if (/^[A-Za-z]$/.test(char)) this.#fail(`the escape \\${char} is not known`);
    return charsOf(char);
  }

  #hex(kind: 'x' | 'u' | 'U'): number {
    const rest = this.#chars.slice(this.#at, this.#at + 10).join('');
    const length = { x: 2, u: 4, U: 8 }[kind];
    const braced = /^\{([0-9A-Fa-f]{1,6})\}/.exec(rest);
    const plain = new RegExp(`^([0-9A-Fa-f]{${length}})`).exec(rest);
    const found = (kind === 'u' ? braced : null) ?? plain;
    const code = found ? Number.parseInt(found[1]!, 16) : Number.NaN;
    if (!found || code > 0x10ffff) return this.#fail(`the escape \\${kind} is not finished`);
    this.#at += found[0].length;
    const low = /^\\u(d[c-f][0-9a-f]{2})/i.exec(this.#chars.slice(this.#at, this.#at + 6).join(''));
    if (code < 0xd800 || code > 0xdbff || !low) return code;
    this.#at += low[0].length;
    return ((code - 0xd800) << 10) + Number.parseInt(low[1]!, 16) - 0xdc00 + 0x10000;
  }

  #control(char: string): number | undefined {
    if (char !== 'c') return undefined;
    const letter = this.#chars[this.#at++] ?? '';
    if (!/^[A-Za-z]$/.test(letter)) this.#fail('the escape \\c is not finished');
    return letter.charCodeAt(0) % 32;
  }

  #take(char: string): boolean {
    if (this.#chars[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #fail(reason: string): never {
    throw new ConstraintError(`${reason} (at character ${this.#at})`);
  }
}

function singleOf(set: CharSet): number | undefined {
  const [range] = set;
  return set.length === 1 && range![0] === range![1] ? range![0] : undefined;
}
