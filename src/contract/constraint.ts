import type { SamplingParams } from './gen/sglang_scheduler_pb.ts';

/** What an output must match. */
export interface NormalisedConstraint {
  /** The proto's name of its field. */
  readonly kind: 'regex' | 'json_schema' | 'ebnf_grammar' | 'structural_tag';
  readonly text: string;
}

const KINDS = {
  regex: 'regex',
  jsonSchema: 'json_schema',
  ebnfGrammar: 'ebnf_grammar',
  structuralTag: 'structural_tag',
} as const;

/** What SGLang takes in place of a schema for "any JSON". */
const ANY_JSON = '$$ANY$$';

/** The constraint that is set; an empty one too. Undefined: none is. */
export function constraintOf(constraint: SamplingParams['constraint']): NormalisedConstraint | undefined {
  if (constraint.case === undefined) return undefined;
  const kind = KINDS[constraint.case];
  return { kind, text: kind === 'json_schema' && constraint.value === ANY_JSON ? '{}' : constraint.value };
}
