import { type CharSet, charSet, complement, union } from './char-set.ts';
import { ConstraintError } from './constraint-error.ts';
import type { EbnfRules } from './ebnf-rules.ts';

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  f: '\f',
  v: '\v',
  b: '\b',
  a: '\x07',
  e: '\x1b',
  '0': '\0',
};

/**
 * A client's grammar, where each class with characters beyond ASCII is a rule of `rules`: xgrammar compares single
 * bytes in classes. The rules are to be added.
 */
export function withExactClasses(grammar: string, rules: EbnfRules): string {
  // A text in quotes, a comment, or a class.
  return grammar.replace(/"(?:\\.|[^"\\\n])*"|#[^\n]*|\[(?:\\.|[^\]\\])*\]/gsu, (token) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it asks for all of ASCII
    const isPlain = /^[\x00-\x7f]*$/.test(token) && !/\\[uUx]/.test(token);
    if (token[0] !== '[' || isPlain) return token;
    const expression = rules.chars(setOf(token.slice(1, -1)));
    if (expression === undefined) throw new ConstraintError('it has a class that no character is of');
    return expression;
  });
}

function setOf(text: string): CharSet {
  const isNegated = text.startsWith('^');
  const chars = charsOf(isNegated ? text.slice(1) : text);
  const ranges: [number, number][] = [];
  for (let i = 0; i < chars.length; i++) {
    const from = chars[i]!.code;
    const dash = chars[i + 1];
    const to = chars[i + 2];
    if (dash !== undefined && to !== undefined && dash.code === 0x2d && !dash.isEscaped) {
      if (to.code < from) throw new ConstraintError("a class's range ends before it starts");
      ranges.push([from, to.code]);
      i += 2;
    } else ranges.push([from, from]);
  }
  const set = union(charSet(ranges));
  return isNegated ? complement(set) : set;
}

function charsOf(text: string): { code: number; isEscaped: boolean }[] {
  const found: { code: number; isEscaped: boolean }[] = [];
  const member = /\\(?:x([0-9A-Fa-f]+)|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|(.)/gsu;
  for (const [, x, u, U, other, plain] of text.matchAll(member)) {
    const hex = x ?? u ?? U;
    const code = hex === undefined ? (plain ?? ESCAPES[other!] ?? other!).codePointAt(0)! : Number.parseInt(hex, 16);
    if (code > 0x10ffff) throw new ConstraintError('a class has a number that is no character');
    found.push({ code, isEscaped: plain === undefined });
  }
  return found;
}
