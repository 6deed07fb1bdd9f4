import { constraintOf } from './constraint.ts';
import { invalid } from './contract-error.ts';
import type { SamplingParams } from './gen/sglang_scheduler_pb.ts';

/** Bytes of one constraint, in UTF-8. */
export const MAX_CONSTRAINT_BYTES = 1024 * 1024;

/**
 * Checks what can be told of a constraint without compiling it. One that is set and empty is a constraint, as SGLang
 * has it: the empty regex matches the empty output, and nothing is no schema, grammar or tag. Throws ContractError
 * (INVALID_ARGUMENT), which repeats nothing of the text.
 */
export function checkConstraint(constraint: SamplingParams['constraint']): void {
  const set = constraintOf(constraint);
  if (!set) return;
  const { kind, text } = set;
  const bytes = new TextEncoder().encode(text).byteLength;
  if (bytes > MAX_CONSTRAINT_BYTES) {
    throw invalid(kind, `must be at most ${MAX_CONSTRAINT_BYTES} bytes, got ${bytes}.`);
  }
  if (kind === 'ebnf_grammar' && text === '') throw invalid(kind, 'must not be empty.');
  if ((kind === 'json_schema' || kind === 'structural_tag') && !isJson(text)) throw invalid(kind, 'must be JSON.');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
