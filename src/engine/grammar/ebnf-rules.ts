import { type CharSet, complement, intersection } from './char-set.ts';
import { ConstraintError } from './constraint-error.ts';
import { utf8Ranges } from './utf8-ranges.ts';

const ASCII: CharSet = [[0, 0x7f]];
const BEYOND: CharSet = [
  [0x80, 0xd7ff],
  [0xe000, 0x10ffff],
];
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
   * bytes, which is right for ASCII only: others are spelled byte by byte, in rules that it can't inline, since only
   * whole rules are taken so.
   */
  chars(set: CharSet): string | undefined {
    const ascii = intersection(set, ASCII);
    const beyond = intersection(set, BEYOND);
    if (beyond.length === 0) return ascii.length === 0 ? undefined : `[${classOf(ascii)}]`;
    if (JSON.stringify(beyond) === JSON.stringify(BEYOND)) {
      const not = intersection(complement(ascii), ASCII);
      return not.length === 0 ? '([\\x00-\\x7F] | [^\\x00-\\x7F])' : `[^${classOf(not)}]`;
    }
    const byHead = utf8Ranges(beyond).map(([head, ...tail]) => `${byteClass(head!)} ${this.#bytes(tail)}`);
    const rule = this.rule(byHead.join(' | '));
    return ascii.length === 0 ? rule : `([${classOf(ascii)}] | ${rule})`;
  }

  #bytes([head, ...tail]: readonly (readonly [number, number])[]): string {
    return this.rule(tail.length === 0 ? byteClass(head!) : `${byteClass(head!)} ${this.#bytes(tail)}`);
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
