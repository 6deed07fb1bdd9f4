import type { Constraint } from '../../request.ts';

export interface HostileConstraint {
  readonly name: string;
  readonly constraint: Constraint;
  /** Undefined: it may be served or refused. */
  readonly refused?: RegExp;
}

const of = (kind: Constraint['kind'], name: string, text: string, refused?: RegExp): HostileConstraint => ({
  name: `${kind}: ${name}`,
  constraint: { kind, text },
  ...(refused ? { refused } : {}),
});
const ebnf = (name: string, text: string, refused?: RegExp) => of('ebnf_grammar', name, text, refused);
const regex = (name: string, text: string, refused?: RegExp) => of('regex', name, text, refused);
const schema = (name: string, value: unknown, refused?: RegExp) =>
  of('json_schema', name, typeof value === 'string' ? value : JSON.stringify(value), refused);
const tag = (name: string, value: unknown, refused?: RegExp) =>
  of('structural_tag', name, typeof value === 'string' ? value : JSON.stringify(value), refused);

const chain = (length: number) =>
  Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]));

/** Constraints that are wrong, endless, huge, deep, or dear. */
export const HOSTILE: readonly HostileConstraint[] = [
  ebnf('empty', '', /root/),
  ebnf('no root', 'a ::= "b"', /root/),
  ebnf('an unknown rule', 'root ::= foo', /not defined/),
  ebnf('infinite: itself', 'root ::= root', /no token/),
  ebnf('infinite: two of each other', 'root ::= a\na ::= b\nb ::= a', /no token/),
  ebnf('never finished', 'root ::= "a" root'),
  ebnf('left recursion, hidden', 'root ::= a "x"\na ::= "" | root'),
  ebnf('not a grammar', '\u0000\u0001\ufffd"', /refused/),
  ebnf('an open text', 'root ::= "a', /refused/),
  ebnf('an empty class', 'root ::= []'),
  ebnf('a range upside down', 'root ::= [z-a]'),
  ebnf('brackets 10,000 deep', `root ::= ${'('.repeat(10_000)}"a"${')'.repeat(10_000)}`, /nested/),
  ebnf(
    'a chain of 20,000 rules',
    `root ::= r0\n${Array.from({ length: 20_000 }, (_, i) => `r${i} ::= r${i + 1}\n`).join('')}r20000 ::= "a"`,
  ),
  ebnf('ambiguous without end', 'root ::= a a a a a a a a\na ::= "" | a a | "x"'),
  ebnf(
    '1 MB of alternatives',
    `root ::= ${Array.from({ length: 60_000 }, (_, i) => `"word${i}"`).join(' | ')}`.slice(0, 2 ** 20 - 4),
  ),
  ebnf('over 1 MB', `root ::= "${'a'.repeat(2 ** 20)}"`, /over 1048576/),
  ebnf('a repetition of repetitions', 'root ::= ((("a"{1000}){1000}){1000}){1000}'),
  ebnf('a huge repetition', 'root ::= "a"{2000000000}'),
  ebnf('a repetition past all numbers', 'root ::= "a"{99999999999999999999}'),
  ebnf('half a surrogate', 'root ::= "\\uD800"'),
  regex('open bracket', '(', /not closed/),
  regex('closed bracket', 'a)', /closed/),
  regex('open class', '[a', /not closed/),
  regex('nothing to repeat', '*', /nothing to repeat/),
  regex('lookahead', '(?=a)a', /lookahead is not served/),
  regex('back reference', '(a)\\1', /back reference/),
  regex('catastrophic: (a+)+$', '(a+)+$'),
  regex('catastrophic: nested stars', '((((a*)*)*)*)*b'),
  regex('catastrophic: (a|aa)+', '(a|aa|aaa|aaaa)+b'),
  regex('catastrophic: (.*)*', '(.*)*(.*)*(.*)*x'),
  regex('exponential states', `(a|b)*a(a|b){400}`),
  regex('repetitions of repetitions', '(((a{1,100}){1,100}){1,100}){1,100}'),
  regex('alternatives of counts', `(${Array.from({ length: 200 }, (_, i) => `a{${i}}b`).join('|')}){200}`),
  regex('brackets 10,000 deep', `${'('.repeat(10_000)}a${')'.repeat(10_000)}`, /nested/),
  regex('half a megabyte', 'ab|'.repeat(170_000)),
  regex('all classes', `[^${'\\u{10000}-\\u{10001}'.repeat(100)}]{1000}`),
  schema('not JSON', '{"type":', /not JSON/),
  schema('a number', '1', /object, true or false/),
  schema('false', 'false', /nothing is right/),
  schema('an unknown type', { type: 'objekt' }, /"type"/),
  schema('what is not served', { type: 'array', uniqueItems: true }, /uniqueItems/),
  schema('what is not served, inside', { properties: { a: { not: {} } } }, /\/properties\/a.*"not"/),
  schema('alternatives that overlap', { oneOf: [true, { type: 'string', pattern: '^a+$' }], properties: {} }, /oneOf/),
  schema('refers to nothing', { $ref: '#/$defs/x' }, /names nothing/),
  schema('refers elsewhere', { $ref: 'http://x/y' }, /"\$ref"/),
  schema('refers to itself', { $ref: '#' }, /leads to itself/),
  schema(
    'refers round',
    { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
    /leads to itself/,
  ),
  schema('all of itself', { allOf: [{ $ref: '#' }, { type: 'object' }] }, /refused/),
  schema('any of itself', { anyOf: [{ $ref: '#' }, { $ref: '#' }] }, /leads to itself/),
  schema('endless', { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }),
  schema('nested 10,000 deep', `${'{"items":'.repeat(10_000)}{}${'}'.repeat(10_000)}`, /nested/),
  schema('opened 100,000 deep', '['.repeat(100_000), /nested/),
  schema('a chain of 5,000 references', { $ref: '#/$defs/d0', $defs: { ...chain(5_000), d5000: {} } }, /too deep/),
  schema('10,000 properties', {
    properties: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`p${i}`, {}])),
  }),
  schema('counts past all numbers', { type: 'string', minLength: 1e300 }, /whole number/),
  schema('a long string', { type: 'string', minLength: 100_000, maxLength: 900_000 }),
  schema('a count of counts', {
    type: 'array',
    items: { type: 'array', items: { type: 'string', minLength: 5_000 }, minItems: 5_000 },
    minItems: 5_000,
  }),
  schema('bounds with nothing between', { type: 'integer', minimum: 2, maximum: 1 }, /no number/),
  schema('an impossible object', { type: 'object', required: ['a'], additionalProperties: false }, /requires/),
  schema('a prototype', '{"properties":{"__proto__":{"type":"null"},"constructor":{"type":"null"}}}'),
  schema('half a surrogate', '{"const":"\\ud800"}'),
  schema('1 MB of values', { enum: Array.from({ length: 70_000 }, (_, i) => `value-${i}`) }),
  schema('exponential joins', {
    anyOf: Array.from({ length: 12 }, () => ({
      anyOf: Array.from({ length: 12 }, (_, i) => ({
        anyOf: Array.from({ length: 12 }, (_, j) => ({ properties: { [`a${i}`]: { const: j } }, required: [`a${i}`] })),
      })),
    })),
  }),
  tag('not JSON', 'x', /not JSON/),
  tag('an unknown form', { type: 'structural_tag', format: { type: 'nonsense' } }, /refused/),
  tag('without a format', {}, /refused/),
  tag(
    'a wrong schema within',
    { type: 'structural_tag', format: { type: 'json_schema', json_schema: { not: {} } } },
    /"not"/,
  ),
  tag(
    'sequences 10,000 deep',
    `${'{"type":"sequence","elements":['.repeat(10_000)}{"type":"any_text"}${']}'.repeat(10_000)}`,
    /nested/,
  ),
  tag(
    'triggers that start tags of no name',
    { structures: [{ begin: '<a>', schema: {}, end: '' }], triggers: ['<b>'] },
    /refused/,
  ),
  tag('no triggers', { structures: [], triggers: [] }),
];
