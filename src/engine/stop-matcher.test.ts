import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import tokenizerJson from '../../models/stories260K/tokenizer.json?raw';
import tokenizerConfigJson from '../../models/stories260K/tokenizer_config.json?raw';
import { Detokenizer } from '../checkpoint/detokenizer.ts';
import { readTokenBytes } from '../checkpoint/token-bytes.ts';
import { readTokenizer } from '../checkpoint/tokenizer.ts';
import cases from '../testing/golden/stories260K-cases.json';
import { StopMatcher } from './stop-matcher.ts';
import { Stops } from './stops.ts';

const tokens = readTokenBytes(tokenizerJson, 'tokenizer.json');
const tokenizer = readTokenizer(tokenizerJson, tokenizerConfigJson, 'stories260K');

/** Where the first stop string is complete: the number of ids, and the string. */
function firstMatch(stops: readonly string[], ids: readonly number[], skipSpecialTokens = true) {
  const matcher = new StopMatcher(new Stops([], stops), tokens, { skipSpecialTokens });
  for (const [i, id] of ids.entries()) {
    const matched = matcher.push(id);
    if (matched !== undefined) return { length: i + 1, matched };
  }
  return undefined;
}

describe('stop strings', () => {
  it('end where the reference says', () => {
    for (const { stop, output_ids, matched_stop, finish_reason } of cases.stops) {
      const stops = [stop].flat();
      const match = firstMatch(stops, output_ids);
      if (finish_reason !== 'stop') expect(match).toBeUndefined();
      else expect(match).toEqual({ length: output_ids.length, matched: matched_stop });
    }
  });

  it('match as a search over the whole text does, wherever tokens are cut', () => {
    const piece = fc.constantFrom('a', 'b', 'ab', 'é', '🦈', ' ', '\n', 'the', 'é🦈');
    const text = fc.array(piece, { minLength: 1, maxLength: 12 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(text, fc.array(text, { minLength: 1, maxLength: 4 }), (whole, stops) => {
        const ids = tokenizer.encodeBare(whole);
        const match = firstMatch(stops, ids);
        const bytesAfter = (count: number) => {
          const detokenizer = new Detokenizer(tokens, { skipSpecialTokens: true });
          return byteString(ids.slice(0, count).flatMap((id) => [...detokenizer.pushBytes(id)]));
        };
        const has = (count: number, stop: string) =>
          bytesAfter(count).includes(byteString([...new TextEncoder().encode(stop)]));
        const length = ids.findIndex((_, i) => stops.some((stop) => has(i + 1, stop))) + 1;
        if (length === 0) expect(match).toBeUndefined();
        else expect(match).toEqual({ length, matched: stops.find((stop) => has(length, stop)) });
      }),
    );
  });

  it('see special tokens only where these are kept', () => {
    expect(firstMatch(['</s>'], [403, 2], false)).toEqual({ length: 2, matched: '</s>' });
    expect(firstMatch(['</s>'], [403, 2], true)).toBeUndefined();
  });
});

function byteString(bytes: readonly number[]): string {
  return String.fromCharCode(...bytes);
}
