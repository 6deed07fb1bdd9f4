import type { Constraint } from '../../request.ts';
import { SCHEMA_CASES, TOOL } from './schema-cases.ts';

/** A constraint, and which finished outputs are right. Those of JSON schemas are for a validator to judge. */
export interface ConstrainedCase {
  readonly name: string;
  readonly constraint: Constraint;
  readonly schema?: object | boolean;
  readonly matches?: (text: string) => boolean;
}

const regex = (text: string, whole: RegExp): ConstrainedCase => ({
  name: text,
  constraint: { kind: 'regex', text },
  matches: (output) => whole.test(output),
});

const ebnf = (name: string, text: string, matches: (output: string) => boolean): ConstrainedCase => ({
  name,
  constraint: { kind: 'ebnf_grammar', text },
  matches,
});

const tag = (name: string, of: object, matches: (output: string) => boolean): ConstrainedCase => ({
  name,
  constraint: { kind: 'structural_tag', text: JSON.stringify(of) },
  matches,
});

export const REGEX_CASES: readonly ConstrainedCase[] = [
  regex('', /^$/),
  regex('(foo|bar){1,3}', /^(foo|bar){1,3}$/),
  regex('[0-9]{3}-[0-9]{4}', /^[0-9]{3}-[0-9]{4}$/),
  regex('\\d+(\\.\\d{1,2})?', /^\d+(\.\d{1,2})?$/),
  regex('^(true|false)$', /^(true|false)$/),
  regex('[A-Z][a-z]{2,10}( [A-Z][a-z]{2,10})?', /^[A-Z][a-z]{2,10}( [A-Z][a-z]{2,10})?$/),
  regex('.{5,10}', /^[^\n]{5,10}$/u),
  regex('[äöü€😀]{3}', /^[äöü€😀]{3}$/u),
  regex('[ä-ö]{200}', /^[ä-ö]{200}$/u),
  regex('([ä-ö]|x){3}y{2,150}', /^([ä-ö]|x){3}y{2,150}$/u),
  regex('[一-龥]{1,5}', /^[一-龥]{1,5}$/u),
  regex('(\\S+ ){2}\\S', /^(\S+ ){2}\S$/u),
  regex('(.|\\n)*end', /^(.|\n)*end$/u),
  regex('\\w+@\\w+\\.(com|org)', /^\w+@\w+\.(com|org)$/),
  regex('(?:a|b)*c', /^(?:a|b)*c$/),
  regex('a?b?c?', /^a?b?c?$/),
  regex('\\s\\S', /^\s\S$/u),
  regex('[^a-z]{2}', /^[^a-z]{2}$/u),
];

export const EBNF_CASES: readonly ConstrainedCase[] = [
  ebnf('nothing but the end', 'root ::= ""', (text) => text === ''),
  ebnf('a word', 'root ::= "yes" | "no"', (text) => text === 'yes' || text === 'no'),
  ebnf(
    'sums in brackets',
    'root ::= expr\nexpr ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" expr ")"',
    (text) => /^[0-9+()-]+$/.test(text) && isSum(text),
  ),
  ebnf('left recursion', 'root ::= root "a" | "b"', (text) => /^ba*$/.test(text)),
  ebnf('as many of each', 'root ::= "a" root "b" | "ab"', (text) => {
    const half = text.length / 2;
    return half >= 1 && text === 'a'.repeat(half) + 'b'.repeat(half);
  }),
  ebnf('rows', 'root ::= row{1,3}\nrow ::= cell ("," cell)* "\\n"\ncell ::= [a-z]{0,4}', (text) =>
    /^([a-z]{0,4}(,[a-z]{0,4})*\n){1,3}$/.test(text),
  ),
  ebnf('letters of many bytes', 'root ::= [α-ω]{2} "—" [\\U0001F600-\\U0001F610]', (text) =>
    /^[α-ω]{2}—[\u{1F600}-\u{1F610}]$/u.test(text),
  ),
];

export const TAG_CASES: readonly ConstrainedCase[] = [
  tag(
    'a sequence',
    {
      type: 'structural_tag',
      format: {
        type: 'sequence',
        elements: [
          { type: 'const_string', value: 'call ' },
          { type: 'json_schema', json_schema: TOOL },
        ],
      },
    },
    (text) => text.startsWith('call ') && isTool(text.slice(5)),
  ),
  tag(
    'tags after triggers',
    {
      type: 'structural_tag',
      format: {
        type: 'triggered_tags',
        triggers: ['<f='],
        tags: [{ type: 'tag', begin: '<f=a>', content: { type: 'json_schema', json_schema: TOOL }, end: '</f>' }],
        at_least_one: true,
        stop_after_first: true,
      },
    },
    (text) => /^<f=a>/.test(text) && isTool(text.slice(5, -4)) && text.endsWith('</f>'),
  ),
  tag(
    'the older form',
    { structures: [{ begin: '<g>', schema: TOOL, end: '</g>' }], triggers: ['<g>'] },
    (text) =>
      [...text.matchAll(/<g>/g)].length === [...text.matchAll(/<g>(.*?)<\/g>/gs)].filter((m) => isTool(m[1]!)).length,
  ),
  tag(
    'a regex or a grammar',
    {
      type: 'structural_tag',
      format: {
        type: 'or',
        elements: [
          { type: 'regex', pattern: '[0-9]{2}' },
          { type: 'grammar', grammar: 'root ::= "x" [a-c]' },
        ],
      },
    },
    (text) => /^([0-9]{2}|x[a-c])$/.test(text),
  ),
];

export const CONSTRAINED_CASES: readonly ConstrainedCase[] = [
  ...SCHEMA_CASES,
  ...REGEX_CASES,
  ...EBNF_CASES,
  ...TAG_CASES,
];

function isTool(text: string): boolean {
  try {
    const { n, ...rest } = JSON.parse(text) as { n: unknown };
    return Number.isInteger(n) && Object.keys(rest).length === 0;
  } catch {
    return false;
  }
}

/** Sums of digits, where a bracket holds a sum. */
function isSum(text: string): boolean {
  let inner = text;
  for (let before = ''; before !== inner; ) {
    before = inner;
    inner = inner.replace(/\([0-9]+([+-][0-9]+)*\)/g, '0');
  }
  return /^[0-9]+([+-][0-9]+)*$/.test(inner);
}
