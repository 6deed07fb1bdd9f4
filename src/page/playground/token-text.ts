import type { TokenBytes } from '../../checkpoint/token-bytes.ts';

const WHOLE = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A token by itself, to be read: blanks by signs, bytes that are no character by themselves in hex, `<C3>`. */
export function tokenText(tokens: TokenBytes, id: number): string {
  const bytes = tokens.bytes(id);
  if (bytes.length === 0) return '∅';
  try {
    return WHOLE.decode(bytes).replaceAll(' ', '␣').replaceAll('\n', '↵').replaceAll('\t', '⇥');
  } catch {
    return Array.from(bytes, (byte) => `<${byte.toString(16).toUpperCase().padStart(2, '0')}>`).join('');
  }
}

/** How likely, in five steps: 0 is nearly sure. Undefined where it isn't known. */
export function likelihoodStep(logprob: number | undefined): number | undefined {
  if (logprob === undefined) return undefined;
  return [Math.log(0.9), Math.log(0.5), Math.log(0.2), Math.log(0.05)].filter((least) => logprob < least).length;
}

/** -0.105 as "90 %"; what is under a thousandth has more digits. */
export function probability(logprob: number): string {
  const percent = 100 * Math.exp(logprob);
  return `${percent >= 99.95 || percent === 0 ? percent.toFixed(0) : percent >= 0.1 ? percent.toFixed(1) : percent.toExponential(1)} %`;
}
