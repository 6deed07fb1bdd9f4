import cases from '../../src/testing/golden/stories260K-cases.json' with { type: 'json' };
import reference from '../../src/testing/golden/stories260K-reference.json' with { type: 'json' };

export { cases, reference };

export const PROMPT = 'Once upon a time';
/** BOS and the prompt. */
export const PROMPT_IDS = reference.greedy_ids_from_bos.slice(0, 5);
/** The 196 ids that greedy decoding makes of it. */
export const OUTPUT_IDS = reference.greedy_ids_from_bos.slice(5);
/** Their text. */
export const COMPLETION = reference.text.slice(PROMPT.length);
