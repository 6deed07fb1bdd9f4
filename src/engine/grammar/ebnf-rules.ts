import { type CharSet, complement, intersection } from './char-set.ts';
import { ConstraintError } from './constraint-error.ts';
import { utf8Ranges } from './utf8-ranges.ts';

const ASCII: CharSet = [[0, 0x7f]];
const BEYOND: CharSet = [
  [0x80, 0xd7ff],
  [0xe000, 0x10ffff],
];
/** Places of a count that are spelled out, and of one chunk of a longer one. */
const UNROLLED = 8;
const CHUNK = 32;
/** Characters of all rules together. */
const MOST_TEXT = 8 * 2 ** 20;

/**
 * Rules of a grammar in xgrammar's EBNF, and expressions for them. Expressions are strings that stand in a sequence as
 * they are.
 */
export class EbnfRules {
  readonly #prefix: string;
  readonly #bodies: string[] = [];
  readonly #names = new Map<string, string>();
  #length = 0;

  /** `prefix`: of the rules' names, which must be no others'. */
  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The name of the rule with this body; the same body has the same rule. */
  rule(body: string): string {
    let name = this.#names.get(body);
    if (name === undefined) {
      name = this.reserve();
      this.#names.set(body, name);
      this.define(name, body);
    }
    return name;
  }

  /** A name whose rule is defined later: it may refer to itself. */
  reserve(): string {
    return `${this.#prefix}${this.#bodies.push('')}`;
  }

  define(name: string, body: string): void {
    this.#bodies[Number(name.slice(this.#prefix.length)) - 1] = `${name} ::= ${body}\n`;
    this.#length += body.length;
    if (this.#length > MOST_TEXT) throw new ConstraintError('its grammar is too large');
  }

  /** All rules; `root`: the first one's body. */
  grammar(root: string): string {
    return `root ::= ${root}\n${this.text}`;
  }

  get text(): string {
    return this.#bodies.join('');
  }

  /**
   * One character of the set, as an expression; undefined for an empty set. xgrammar's own classes compare single
   * bytes, which is right for ASCII and for all that is not ASCII: others are spelled byte by byte.
   */
  chars(set: CharSet): string | undefined {
    const ways = spellings(set);
    return ways.length === 0 ? undefined : choice(ways.map((way) => way.join(' ')));
  }

  /** `min` to `max` times any of some ways to spell a character, of which there is at least one. */
  repeated(ways: readonly Spelling[], min: number, max: number | undefined): string {
    const once = choice(ways.map((way) => way.join(' ')));
    if (max !== undefined) return this.#counted(once, min, max);
    const first = min === 0 ? '' : `${this.#counted(once, min, min)} `;
    return `${first}${ways.length === 1 && ways[0]!.length === 1 ? `${once}*` : this.#star(ways)}`;
  }

  /** Within one rule that calls itself last, xgrammar knows for each token at once whether it may come. */
  #star(ways: readonly Spelling[]): string {
    return this.recursive((name) => ['""', ...ways.map((way) => `${way.join(' ')} ${name}`)].join(' | '));
  }

  /** A rule that refers to itself; the same one for the same body. */
  recursive(body: (name: string) => string): string {
    const key = body('itself');
    let name = this.#names.get(key);
    if (name === undefined) {
      name = this.reserve();
      this.#names.set(key, name);
      this.define(name, body(name));
    }
    return name;
  }

  /**
   * xgrammar looks at its whole vocabulary for each place of a count, so that a long one is made of chunks, whose places
   * all counts of the same character share.
   */
  #counted(once: string, min: number, max: number): string {
    if (max <= UNROLLED) return repeat(once, min, max);
    const needed = Array<string>(Math.floor(min / CHUNK)).fill(this.#exactly(once, CHUNK));
    if (min % CHUNK > 0) needed.push(this.#exactly(once, min % CHUNK));
    let more = this.#upTo(once, (max - min) % CHUNK);
    for (let left = Math.floor((max - min) / CHUNK); left > 0; left--) {
      more = this.rule(`${this.#upTo(once, CHUNK - 1)} | ${this.#exactly(once, CHUNK)} ${more}`);
    }
    return [...needed, more].join(' ');
  }

  #exactly(once: string, count: number): string {
    return count === 1 ? this.rule(once) : this.rule(`${once} ${this.#exactly(once, count - 1)}`);
  }

  #upTo(once: string, count: number): string {
    return count === 0 ? '""' : this.rule(`"" | ${once} ${this.#upTo(once, count - 1)}`);
  }
}

/** A text as it is. */
export function literal(text: string): string {
  return `"${[...text].map(literalChar).join('')}"`;
}

/** Any of the expressions. */
export function choice(expressions: readonly string[]): string {
  return expressions.length === 1 ? expressions[0]! : `(${expressions.join(' | ')})`;
}

/** `max` undefined: without end. */
export function repeat(expression: string, min: number, max: number | undefined): string {
  if (max === 0) return '""';
  if (min === 1 && max === 1) return expression;
  if (max === undefined && min < 2) return `(${expression})${min === 0 ? '*' : '+'}`;
  if (min === 0 && max === 1) return `(${expression})?`;
  return `(${expression}){${min},${max ?? ''}}`;
}

function literalChar(char: string): string {
  if (char === '"' || char === '\\') return `\\${char}`;
  const code = char.codePointAt(0)!;
  return code < 0x20 || code === 0x7f ? hex(code) : char;
}

/** Classes of bytes, one after the other. */
export type Spelling = readonly string[];

/** The ways to spell a character of the set. */
export function spellings(set: CharSet): readonly Spelling[] {
  const ascii = intersection(set, ASCII);
  const beyond = intersection(set, BEYOND);
  if (beyond.length === 0) return ascii.length === 0 ? [] : [[`[${classOf(ascii)}]`]];
  const all = JSON.stringify(beyond) === JSON.stringify(BEYOND);
  const not = intersection(complement(ascii), ASCII);
  if (all && not.length > 0) return [[`[^${classOf(not)}]`]];
  const spelled = all
    ? [['[^\\u0000-\\u007F]']]
    : utf8Ranges(beyond).map((bytes) => bytes.map((byte) => byteClass(byte)));
  return ascii.length === 0 ? spelled : [[`[${classOf(ascii)}]`], ...spelled];
}

function classOf(set: CharSet): string {
  return set.map(([from, to]) => (from === to ? hex(from) : `${hex(from)}-${hex(to)}`)).join('');
}

/** A class of one value would be taken for the character of that number. */
function byteClass([from, to]: readonly [number, number]): string {
  return from === to ? `[${hex(from)}${hex(to)}]` : `[${hex(from)}-${hex(to)}]`;
}

function hex(byte: number): string {
  return `\\u${byte.toString(16).toUpperCase().padStart(4, '0')}`;
}
