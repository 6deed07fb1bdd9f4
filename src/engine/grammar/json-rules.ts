import { type CharSet, charsOf, complement, hasChar, intersection, without } from './char-set.ts';
import { type EbnfRules, literal, repeat, type Spelling, spellings } from './ebnf-rules.ts';
import { integerExpression } from './number-rules.ts';

/** Whitespace in a row: with no bound, a model that likes spaces never gets to the end of an object. */
const MOST_SPACES = 16;
const CONTROLS: CharSet = [[0, 0x1f]];
const SPECIAL = charsOf('"\\');
/** What a JSON string may hold as it is. */
const PLAIN = without(complement(CONTROLS), SPECIAL);
const SHORT_ESCAPES = { '"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' } as const;

/** What follows a string, for xgrammar to look ahead; at the end of a text it is not asked. */
const BEHIND = `(= [ \\n\\t]{0,${MOST_SPACES}} [,}\\]:])`;
/** More characters than any output has. */
const MOST_CHARS = 2 ** 16;
const ALL: CharSet = [[0, 0x10ffff]];

/** A value's own text. */
export function jsonLiteral(value: unknown): string {
  // Masks never let a line's end of its own kind through; JSON has another way to say it.
  const text = JSON.stringify(value).replace(/[\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16)}`);
  return literal(text);
}

/** The ways in which a string spells a character of the set. */
export function jsonSpellings(set: CharSet): readonly Spelling[] {
  const ways = [...spellings(intersection(set, PLAIN))];
  for (const [char, letter] of Object.entries(SHORT_ESCAPES)) {
    if (hasChar(set, char.charCodeAt(0))) ways.push([literal(`\\${letter}`)]);
  }
  // Other control characters only where nothing else is meant: few models' outputs want them.
  if (ways.length > 0) return ways;
  for (let code = 0; code < 0x20; code++) {
    if (hasChar(set, code)) ways.push([literal(JSON.stringify(String.fromCharCode(code)).slice(1, -1))]);
  }
  return ways;
}

/** Expressions for the parts that all JSON texts have. */
export class JsonRules {
  readonly rules: EbnfRules;
  #any: string | undefined;

  constructor(rules: EbnfRules) {
    this.rules = rules;
  }

  get space(): string {
    return this.rules.rule(repeat('[ \\n\\t]', 0, MOST_SPACES));
  }

  /** Between two members or items. */
  get comma(): string {
    return `${this.space} "," ${this.space}`;
  }

  /** A string of any kind: its rest calls itself, with what may stand behind, as xgrammar likes it best. */
  get string(): string {
    const hex = '[0-9A-Fa-f]';
    // An escape is never half of a character.
    const unicode = `"u" ([0-9A-CE-Fa-ce-f] ${hex} ${hex} ${hex} | [Dd] [0-7] ${hex} ${hex})`;
    const plain = this.rules.chars(PLAIN);
    const rest = this.rules.recursive(
      (name) => `("\\"" | ${plain} ${name} | "\\\\" ["\\\\/bfnrt] ${name} | "\\\\" ${unicode} ${name}) ${BEHIND}`,
    );
    return `"\\"" ${rest}`;
  }

  /** A string of so many characters, none of them an escape. */
  stringOfLength(min: number, max: number | undefined): string {
    return this.rules.rule(
      `"\\"" ${this.rules.repeated(spellings(PLAIN), min, max && Math.max(min, Math.min(max, MOST_CHARS)))} "\\""`,
    );
  }

  /** Any string but these. */
  stringBut(names: readonly string[]): string {
    return this.rules.rule(`"\\"" ${this.#tailBut(names.map((name) => [...name]))}`);
  }

  /** The rest of a string, and its quote, that is none of these rests. */
  #tailBut(rests: readonly (readonly string[])[]): string {
    // Spelled without \u, so that no name comes in by another spelling.
    const others = this.rules.rule(`${this.rules.repeated(jsonSpellings(ALL), 0, undefined)} "\\""`);
    if (rests.length === 0) return others;
    const ways = rests.some((rest) => rest.length === 0) ? [] : ['"\\""'];
    const heads = new Set(rests.flatMap(([head]) => (head === undefined ? [] : [head])));
    for (const way of jsonSpellings(complement(charsOf([...heads].join(''))))) ways.push(`${way.join(' ')} ${others}`);
    for (const head of heads) {
      const tails = rests.filter((rest) => rest[0] === head).map((rest) => rest.slice(1));
      const after = this.#tailBut(tails);
      for (const way of jsonSpellings(charsOf(head))) ways.push(`${way.join(' ')} ${after}`);
    }
    return this.rules.rule(ways.join(' | '));
  }

  get number(): string {
    const whole = integerExpression({
      minimum: undefined,
      exclusiveMinimum: undefined,
      maximum: undefined,
      exclusiveMaximum: undefined,
    });
    return this.rules.rule(`${whole} ("." ${repeat('[0-9]', 1, 15)})? ([eE] [+-]? [0-9] [0-9]?)?`);
  }

  get any(): string {
    if (this.#any !== undefined) return this.#any;
    this.#any = this.rules.reserve();
    const array = this.array(this.#any, 0, undefined);
    const members = this.list(this.member(this.string, this.#any), 0, undefined);
    const object = this.rules.rule(`"{" ${this.space} ${members} ${this.space} "}"`);
    this.rules.define(this.#any, `${object} | ${array} | ${this.string} | ${this.number} | "true" | "false" | "null"`);
    return this.#any;
  }

  array(item: string, min: number, max: number | undefined): string {
    return this.rules.rule(`"[" ${this.space} ${this.list(item, min, max)} ${this.space} "]"`);
  }

  member(key: string, value: string): string {
    return `${key} ${this.space} ":" ${this.space} ${value}`;
  }

  /** `min` to `max` of them with commas between. */
  list(item: string, min: number, max: number | undefined): string {
    if (max === 0) return '""';
    const rest = this.more(item, Math.max(0, min - 1), max === undefined ? undefined : max - 1);
    const some = `${item} ${rest}`;
    return min === 0 ? `(${some})?` : some;
  }

  /** The same after others. */
  more(item: string, min: number, max: number | undefined): string {
    return repeat(`${this.comma} ${item}`, min, max);
  }
}
