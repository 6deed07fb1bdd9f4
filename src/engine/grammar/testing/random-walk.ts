import type { TokenBytes } from '../../../checkpoint/token-bytes.ts';
import type { GrammarMatcher } from '../../grammars.ts';

/** Tokens after which a walk heads for the end, and after which it is given up. */
const WANDER = 40;
const MOST = 3_000;

/**
 * An output that takes any allowed id at random, and heads for the end once it is long: bytes, or undefined where no end
 * came. `random` gives numbers in [0, 1).
 */
export async function randomWalk(
  matcher: GrammarMatcher,
  tokens: TokenBytes,
  vocabSize: number,
  stopId: number,
  random: () => number,
): Promise<Uint8Array | undefined> {
  const bytes: number[] = [];
  for (let length = 0; length < MOST; length++) {
    const { mask, finished } = matcher.state;
    if (finished) return Uint8Array.from(bytes);
    const allowed = Array.from({ length: vocabSize }, (_, id) => id).filter(
      (id) => mask === undefined || mask[id >> 5]! & (1 << (id & 31)),
    );
    const id = choose(allowed, tokens, stopId, length > WANDER, random);
    await matcher.accept(id);
    if (id !== stopId) bytes.push(...tokens.bytes(id));
  }
  return undefined;
}

function choose(
  allowed: readonly number[],
  tokens: TokenBytes,
  stopId: number,
  home: boolean,
  random: () => number,
): number {
  if (allowed.includes(stopId) && random() < (home ? 0.8 : 0.2)) return stopId;
  const closing = allowed.filter((id) => /^[\]}")]+$|^<\/?$/.test(new TextDecoder().decode(tokens.bytes(id))));
  const among = closing.length > 0 && random() < (home ? 0.7 : 0.1) ? closing : allowed;
  return among[Math.floor(random() * among.length)]!;
}
