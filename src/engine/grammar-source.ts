import type { Constraint } from './request.ts';

/** Levels of brackets that a constraint may have: the library recurses over them on a stack of 64 KiB. */
export const MAX_NESTING = 64;

/** A constraint that is refused before the library sees it. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError';
}

/** A constraint as the library takes it. */
export interface GrammarSource {
  readonly form: 'json-schema' | 'structural-tag' | 'ebnf';
  readonly text: string;
}

/** The library's form of a constraint. Throws ConstraintError, whose message holds nothing of the constraint's text. */
export function grammarSource({ kind, text }: Constraint): GrammarSource {
  switch (kind) {
    case 'json_schema':
      parseJson(text);
      return { form: 'json-schema', text };
    case 'structural_tag':
      return { form: 'structural-tag', text: structuralTag(text) };
    case 'ebnf_grammar':
      checkNesting(text, '(', ')');
      return { form: 'ebnf', text };
    case 'regex':
      if (text === '') return { form: 'ebnf', text: 'root ::= ""' };
      checkNesting(text, '(', ')');
      // The library's page build takes a regex by this way only.
      return { form: 'structural-tag', text: tag({ type: 'regex', pattern: text }) };
  }
}

/** Also SGLang's older form, {structures: [{begin, schema, end}], triggers}. */
function structuralTag(text: string): string {
  const value = parseJson(text);
  if (!isRecord(value)) throw new ConstraintError('it must be a JSON object');
  if (!('structures' in value)) return text;
  const { structures, triggers } = value;
  if (!Array.isArray(structures) || !Array.isArray(triggers)) {
    throw new ConstraintError('structures and triggers must be arrays');
  }
  const tags = structures.map((structure: unknown) => {
    if (!isRecord(structure)) throw new ConstraintError('each of structures must be an object');
    const { begin, schema, end } = structure;
    return { type: 'tag', begin, content: { type: 'json_schema', json_schema: schema ?? true }, end };
  });
  return tag({ type: 'triggered_tags', triggers, tags });
}

function tag(format: unknown): string {
  return JSON.stringify({ type: 'structural_tag', format });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
