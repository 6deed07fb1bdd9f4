import type { Constraint } from '../request.ts';
import { ConstraintError } from './constraint-error.ts';
import { withExactClasses } from './ebnf-classes.ts';
import { EbnfRules, spellings } from './ebnf-rules.ts';
import { regexExpression } from './regex-rules.ts';
import { parseRegex } from './regex-syntax.ts';
import { isNode } from './schema-node.ts';
import { schemaExpression } from './schema-rules.ts';

/** Levels of brackets that a constraint may have: the library recurses over them on a stack of 64 KiB. */
export const MAX_NESTING = 64;

/** A constraint as the library takes it. */
export interface GrammarSource {
  readonly form: 'structural-tag' | 'ebnf';
  readonly text: string;
}

/**
 * The library's form of a constraint. Schemas and regular expressions become grammars here: the library's own
 * converters let through what no validator does. Throws ConstraintError.
 */
export function grammarSource({ kind, text }: Constraint): GrammarSource {
  switch (kind) {
    case 'json_schema':
      return { form: 'ebnf', text: schemaGrammar(parseJson(text)) };
    case 'regex':
      return { form: 'ebnf', text: regexGrammar(text) };
    case 'ebnf_grammar':
      return { form: 'ebnf', text: exactGrammar(text) };
    case 'structural_tag':
      return { form: 'structural-tag', text: structuralTag(parseJson(text)) };
  }
}

function schemaGrammar(schema: unknown): string {
  const rules = new EbnfRules('r');
  return rules.grammar(schemaExpression(schema, rules));
}

function regexGrammar(text: string): string {
  const rules = new EbnfRules('r');
  return rules.grammar(regexExpression(parseRegex(text), rules, spellings));
}

function exactGrammar(text: string): string {
  checkNesting(text, '(', ')');
  let prefix = 'r';
  while (text.includes(prefix)) prefix += '_';
  const rules = new EbnfRules(prefix);
  return `${withExactClasses(text, rules)}\n${rules.text}`;
}

/** Also SGLang's older form, {structures: [{begin, schema, end}], triggers}. */
function structuralTag(value: unknown): string {
  if (!isNode(value)) throw new ConstraintError('it must be a JSON object');
  const { structures, triggers } = value;
  if (structures === undefined) return JSON.stringify(withGrammars(value));
  if (!Array.isArray(structures) || !Array.isArray(triggers)) {
    throw new ConstraintError('"structures" and "triggers" must be arrays');
  }
  const tags = structures.map((structure: unknown) => {
    if (!isNode(structure)) throw new ConstraintError('each of "structures" must be an object');
    const { begin, schema, end } = structure;
    return { type: 'tag', begin, content: { type: 'json_schema', json_schema: schema ?? true }, end };
  });
  return JSON.stringify(withGrammars({ type: 'structural_tag', format: { type: 'triggered_tags', triggers, tags } }));
}

/** A part of a structural tag, where every schema, regular expression and grammar is a grammar of ours. */
function withGrammars(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(withGrammars);
  if (!isNode(part)) return part;
  if (part.type === 'json_schema') return { type: 'grammar', grammar: schemaGrammar(part.json_schema) };
  if (part.type === 'regex' && typeof part.pattern === 'string') {
    return { type: 'grammar', grammar: regexGrammar(part.pattern) };
  }
  if (part.type === 'grammar' && typeof part.grammar === 'string') {
    return { ...part, grammar: exactGrammar(part.grammar) };
  }
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, withGrammars(value)]));
}

function parseJson(text: string): unknown {
  checkNesting(text, '[{', ']}');
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message may quote what it read.
    const at = /position (\d+)/.exec((error as Error).message);
    throw new ConstraintError(`it is not JSON${at ? ` (at position ${at[1]})` : ''}`);
  }
}

/** Brackets in quoted text count too, but not those behind a backslash. */
function checkNesting(text: string, opening: string, closing: string): void {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    if (char === '\\') i++;
    else if (opening.includes(char)) {
      if (++depth > MAX_NESTING) throw new ConstraintError(`it is nested over ${MAX_NESTING} deep`);
    } else if (closing.includes(char) && depth > 0) depth--;
  }
}
