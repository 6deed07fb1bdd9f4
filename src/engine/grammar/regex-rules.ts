import type { CharSet } from './char-set.ts';
import { ConstraintError } from './constraint-error.ts';
import { choice, repeat } from './ebnf-rules.ts';
import type { RegexNode } from './regex-syntax.ts';

/**
 * The whole texts that a regular expression matches, as an expression. `chars`: one character of a set, undefined where
 * there is none. Throws ConstraintError for an anchor that something stands before or behind.
 */
export function regexExpression(node: RegexNode, chars: (set: CharSet) => string | undefined): string {
  return expression(node, chars, true, true);
}

function expression(
  node: RegexNode,
  chars: (set: CharSet) => string | undefined,
  first: boolean,
  last: boolean,
): string {
  switch (node.type) {
    case 'chars': {
      const found = chars(node.set);
      if (found === undefined) throw new ConstraintError('it has a class that no character is of');
      return found;
    }
    case 'choice':
      return choice(node.nodes.map((each) => expression(each, chars, first, last)));
    case 'sequence': {
      const { nodes } = node;
      const parts = nodes.map((each, i) =>
        expression(each, chars, first && nodes.slice(0, i).every(isAnchor), last && nodes.slice(i + 1).every(isAnchor)),
      );
      const written = parts.filter((part) => part !== '""');
      return written.length === 0 ? '""' : written.length === 1 ? written[0]! : `(${written.join(' ')})`;
    }
    case 'repeat': {
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
