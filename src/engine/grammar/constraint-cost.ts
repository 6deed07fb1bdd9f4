import type { Constraint } from '../request.ts';

/** Characters from which on a text is dear whatever it says. */
const LONG = 20_000;
const MOST = 1e15;

/**
 * About how many parts a constraint has once its counts are written out, from its text alone. What costs much is told
 * from what costs little, so that the latter needn't wait for it; a wrong guess costs time, nothing else.
 */
export function constraintCost({ kind, text }: Constraint): number {
  if (text.length > LONG) return MOST;
  if (kind === 'regex' || kind === 'ebnf_grammar') return repetitions(text, kind === 'ebnf_grammar');
  try {
    return Math.min(MOST, parts(JSON.parse(text)));
  } catch {
    // It will be refused.
    return text.length;
  }
}

/** Of a schema, or of what has schemas in it. */
function parts(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  const { minItems, maxItems, minLength, maxLength, pattern } = value as Record<string, unknown>;
  let sum = 1 + count(minLength, maxLength) + (typeof pattern === 'string' ? repetitions(pattern, false) : 0);
  for (const [key, child] of Object.entries(value)) {
    sum += parts(child) * (key === 'items' ? Math.max(1, count(minItems, maxItems)) : 1);
  }
  return sum;
}

function count(...bounds: readonly unknown[]): number {
  return Math.max(0, ...bounds.filter((bound) => typeof bound === 'number'));
}

/** Of a regular expression, or of a grammar: there texts in quotes are one part each. */
function repetitions(text: string, quotes: boolean): number {
  const sums = [0];
  /** What a count behind it repeats. */
  let last = 0;
  const add = (parts: number) => {
    last = Math.min(MOST, parts);
    sums[sums.length - 1] = Math.min(MOST, sums.at(-1)! + last);
  };
  const pattern = quotes
    ? /"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/gu
    : /\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/gu;
  for (const [part, least, most] of text.matchAll(pattern)) {
    if (least !== undefined) {
      const times = Math.max(1, Number(least), Number(most ?? 0));
      add(last * (times - 1));
      last = Math.min(MOST, last * (times / Math.max(1, times - 1)));
    } else if (part === '(') sums.push(0);
    else if (part === ')') add(sums.length > 1 ? sums.pop()! : 0);
    else if (!/^[|?*+\s]$/.test(part)) add(1);
  }
  return Math.min(
    MOST,
    sums.reduce((a, b) => a + b, 0),
  );
}
