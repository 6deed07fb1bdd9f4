import { type CharSet, charsOf, complement, hasChar, intersection, without } from './char-set.ts';
import { choice, type EbnfRules, literal, repeat } from './ebnf-rules.ts';
import { integerExpression } from './number-rules.ts';

/** Whitespace in a row: with no bound, a model that likes spaces never gets to the end of an object. */
const MOST_SPACES = 16;
const CONTROLS: CharSet = [[0, 0x1f]];
const SPECIAL = charsOf('"\\');
/** What a JSON string may hold as it is. */
const PLAIN = without(complement(CONTROLS), SPECIAL);
const SHORT_ESCAPES = { '"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' } as const;

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

  get string(): string {
    return this.rules.rule(`"\\"" ${repeat(this.character, 0, undefined)} "\\""`);
  }

  /** One character of a string; an escape is never half of one. */
  get character(): string {
    const hex = '[0-9A-Fa-f]';
    const unicode = `"u" ([0-9A-CE-Fa-ce-f] ${hex} ${hex} ${hex} | [Dd] [0-7] ${hex} ${hex})`;
    return this.rules.rule(`${this.rules.chars(PLAIN)} | "\\\\" (["\\\\/bfnrt] | ${unicode})`);
  }

  /** One character of the set, as a string spells it; undefined for an empty set. */
  characterOf(set: CharSet): string | undefined {
    const ways: string[] = [];
    const plain = this.rules.chars(intersection(set, PLAIN));
    if (plain !== undefined) ways.push(plain);
    for (const [char, letter] of Object.entries(SHORT_ESCAPES)) {
      if (hasChar(set, char.charCodeAt(0))) ways.push(literal(`\\${letter}`));
    }
    // Other control characters only where nothing else is meant: few models' outputs want them.
    if (ways.length > 0) return choice(ways);
    for (let code = 0; code < 0x20; code++) {
      if (hasChar(set, code)) ways.push(literal(JSON.stringify(String.fromCharCode(code)).slice(1, -1)));
    }
    return ways.length === 0 ? undefined : choice(ways);
  }

  /** Any string but these. */
  stringBut(names: readonly string[]): string {
    return this.rules.rule(`"\\"" ${this.#tailBut(names.map((name) => [...name]))}`);
  }

  /** The rest of a string, and its quote, that is none of these rests. */
  #tailBut(rests: readonly (readonly string[])[]): string {
    if (rests.length === 0) return this.rules.rule(`${repeat(this.character, 0, undefined)} "\\""`);
    const ways = rests.some((rest) => rest.length === 0) ? [] : ['"\\""'];
    const heads = new Set(rests.flatMap(([head]) => (head === undefined ? [] : [head])));
    // Spelled without \u, so that no name comes in by another spelling.
    const other = this.characterOf(complement(charsOf([...heads].join(''))));
    ways.push(`${other} ${this.rules.rule(`${repeat(this.#spelledOnce, 0, undefined)} "\\""`)}`);
    for (const head of heads) {
      const tails = rests.filter((rest) => rest[0] === head).map((rest) => rest.slice(1));
      ways.push(`${this.characterOf(charsOf(head))} ${this.#tailBut(tails)}`);
    }
    return this.rules.rule(ways.join(' | '));
  }

  get #spelledOnce(): string {
    return this.characterOf([[0, 0x10ffff]])!;
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
