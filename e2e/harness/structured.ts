/**
 * Constraints of finite languages, none longer than some 400 tokens with all the whitespace that JSON may have here,
 * each with a check of its own: whatever is finished must pass, and all is.
 */
export interface StructuredCase {
  readonly name: string;
  readonly kind: 'json_schema' | 'regex' | 'ebnf_grammar';
  readonly text: string;
  /** Of the whole text. */
  readonly holds: (text: string) => boolean;
}

/** The proto's names in messages. */
export const CASE_OF = { json_schema: 'jsonSchema', regex: 'regex', ebnf_grammar: 'ebnfGrammar' } as const;

function schemaCase(name: string, schema: object, holds: (value: never) => boolean): StructuredCase {
  return {
    name,
    kind: 'json_schema',
    text: JSON.stringify(schema),
    holds: (text) => (holds as (value: unknown) => boolean)(JSON.parse(text)),
  };
}

function keys(value: object, expected: readonly string[]): boolean {
  return Object.keys(value).sort().join() === [...expected].sort().join();
}

const isShort = (value: unknown, most: number) => typeof value === 'string' && [...value].length <= most;
const isInteger = (value: unknown, least: number, most: number) =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= most;

/** As in the tests through the gateways. */
export const WEATHER_SCHEMA = {
  type: 'object',
  properties: {
    city: { type: 'string', maxLength: 8 },
    sky: { enum: ['sun', 'rain'] },
    degrees: { type: 'integer', minimum: -20, maximum: 45 },
  },
  required: ['city', 'sky', 'degrees'],
  additionalProperties: false,
} as const;

export function isWeather(value: { city: unknown; sky: unknown; degrees: unknown }): boolean {
  return (
    keys(value, WEATHER_SCHEMA.required) &&
    isShort(value.city, 8) &&
    ['sun', 'rain'].includes(value.sky as string) &&
    isInteger(value.degrees, -20, 45)
  );
}

const POINT = {
  type: 'object',
  properties: { x: { type: 'integer', minimum: 0, maximum: 9 }, y: { type: 'integer', minimum: 0, maximum: 9 } },
  required: ['x', 'y'],
  additionalProperties: false,
};
const isPoint = (value: { x: unknown; y: unknown }) =>
  keys(value, ['x', 'y']) && isInteger(value.x, 0, 9) && isInteger(value.y, 0, 9);

export const SCHEMAS: readonly StructuredCase[] = [
  schemaCase('an object of string, enum and integer', WEATHER_SCHEMA, isWeather),
  schemaCase(
    'a $ref twice, nested',
    {
      type: 'object',
      properties: {
        pair: {
          type: 'object',
          properties: { a: { $ref: '#/$defs/digit' }, b: { $ref: '#/$defs/digit' } },
          required: ['a', 'b'],
          additionalProperties: false,
        },
      },
      required: ['pair'],
      additionalProperties: false,
      $defs: { digit: { type: 'integer', minimum: 0, maximum: 9 } },
    },
    (value: { pair: { a: unknown; b: unknown } }) =>
      keys(value, ['pair']) &&
      keys(value.pair, ['a', 'b']) &&
      isInteger(value.pair.a, 0, 9) &&
      isInteger(value.pair.b, 0, 9),
  ),
  schemaCase(
    'anyOf',
    { anyOf: [{ const: 'yes' }, { type: 'boolean' }, { type: 'null' }, POINT] },
    (value: unknown) =>
      value === 'yes' || typeof value === 'boolean' || value === null || isPoint(value as { x: unknown; y: unknown }),
  ),
  schemaCase(
    'an array of two to four',
    { type: 'array', items: { enum: [1, 'two', null] }, minItems: 2, maxItems: 4 },
    (value: unknown[]) =>
      value.length >= 2 && value.length <= 4 && value.every((each) => [1, 'two', null].includes(each as never)),
  ),
  schemaCase('a pattern', { type: 'string', pattern: '^[A-Z][a-z]{1,5}-[0-9]{2}$' }, (value: string) =>
    /^[A-Z][a-z]{1,5}-[0-9]{2}$/.test(value),
  ),
];

const regexCase = (text: string, flags = ''): StructuredCase => ({
  name: `/${text}/`,
  kind: 'regex',
  text,
  holds: (output) => new RegExp(`^(?:${text})$`, `${flags}u`).test(output),
});

export const REGEXES: readonly StructuredCase[] = [
  regexCase('[0-9]{3}-[0-9]{4}'),
  regexCase('(yes|no|may ?be)(, (yes|no)){0,2}\\.'),
  regexCase('(é|🙂|[a-c]){2,6}!'),
];

export const EBNFS: readonly StructuredCase[] = [
  {
    name: 'a sum',
    kind: 'ebnf_grammar',
    text: 'root ::= digit (" + " digit){1,3} " = ?"\ndigit ::= [1-9] [0-9]?',
    holds: (text) => /^[1-9][0-9]?( \+ [1-9][0-9]?){1,3} = \?$/.test(text),
  },
  {
    name: 'nesting up to three',
    kind: 'ebnf_grammar',
    text: 'root ::= "(" one? ")"\none ::= "[" two? "]"\ntwo ::= "{" [a-z]{0,3} "}"',
    holds: (text) => /^\((\[(\{[a-z]{0,3}\})?\])?\)$/.test(text),
  },
  {
    name: 'a story',
    kind: 'ebnf_grammar',
    text: 'root ::= ", there was a " ("big" | "little" | "red") " " ("dog" | "cat") "."',
    holds: (text) => /^, there was a (big|little|red) (dog|cat)\.$/.test(text),
  },
];

export const STRUCTURED: readonly StructuredCase[] = [...SCHEMAS, ...REGEXES, ...EBNFS];
