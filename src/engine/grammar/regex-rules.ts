import type { CharSet } from './char-set.ts';
import { ConstraintError } from './constraint-error.ts';
import { choice, type EbnfRules, repeat, type Spelling } from './ebnf-rules.ts';
import type { RegexNode } from './regex-syntax.ts';

/**
 * The whole texts that a regular expression matches, as an expression. `spell`: the ways to write a character of a set.
 * Throws ConstraintError for an anchor that something stands before or behind.
 */
export function regexExpression(
  node: RegexNode,
  rules: EbnfRules,
  spell: (set: CharSet) => readonly Spelling[],
): string {
  const chars = (set: CharSet, min: number, max: number | undefined) => {
    const ways = spell(set);
    if (ways.length === 0) throw new ConstraintError('it has a class that no character is of');
    return rules.repeated(ways, min, max);
  };
  return expression(node, chars, true, true);
}

function expression(
  node: RegexNode,
  chars: (set: CharSet, min: number, max: number | undefined) => string,
  first: boolean,
  last: boolean,
): string {
  switch (node.type) {
    case 'chars': {
      return chars(node.set, 1, 1);
    }
    case 'choice':
      return choice(node.nodes.map((each) => expression(each, chars, first, last)));
    case 'sequence': {
      const { nodes } = node;
      const parts = nodes.map((each, i) =>
        expression(each, chars, first && nodes.slice(0, i).every(isAnchor), last && nodes.slice(i + 1).every(isAnchor)),
      );
      const said = parts.filter((part) => part !== '""');
      return said.length === 0 ? '""' : said.length === 1 ? said[0]! : `(${said.join(' ')})`;
    }
    case 'repeat': {
      if (node.node.type === 'chars') return chars(node.node.set, node.min, node.max);
      const once = node.max === 1;
      return repeat(expression(node.node, chars, first && once, last && once), node.min, node.max);
    }
    case 'start':
    case 'end':
      if (!(node.type === 'start' ? first : last)) throw new ConstraintError('it has an anchor inside');
      return '""';
  }
}

function isAnchor(node: RegexNode): boolean {
  return node.type === 'start' || node.type === 'end';
}
