import { HEAD, HEAD_MOST } from '../contract/draw-uniform.ts';
import type { SearchedRow, TileRow } from './sampler.ts';

/** It may be drawn over the whole row, and what is before its draw has to be weighed. */
export function mayWait({ sampled, topK, topP }: TileRow, vocabulary: number): boolean {
  return sampled && topP < 1 && (topK === 0 || topK >= vocabulary);
}

/** Its top k is past every head: it is searched for, by buckets. */
export function isManyDrawn({ sampled, topK }: SearchedRow, vocabulary: number): boolean {
  return sampled && topK > HEAD_MOST && topK < vocabulary;
}

/** Its top logprobs are more than its head tells. */
export function isManyRanked({ sampled, topK, top }: SearchedRow, vocabulary: number): boolean {
  if (!sampled) return top > HEAD_MOST;
  return top > (topK > 0 && topK <= HEAD_MOST && topK < vocabulary ? topK : HEAD);
}
