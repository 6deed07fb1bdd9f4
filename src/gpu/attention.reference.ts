import type { KvPool } from './kv-pool.reference.ts';

export interface AttentionQuery {
  /** One head of one row, [headSize]. */
  readonly query: Float32Array;
  readonly kvHead: number;
  readonly blockTable: ArrayLike<number>;
  /** Keys [first, end) that the row sees. */
  readonly first: number;
  readonly end: number;
  /** Default: 1 / √headSize. */
  readonly scale?: number | undefined;
  /** Scores become cap · tanh(score / cap); default: they don't. */
  readonly cap?: number | undefined;
}

/** softmax(scale q · K, capped) V over the keys of a block table: [headSize], in float64. */
export function attentionReference(
  pool: KvPool,
  { query, kvHead, blockTable, first, end, scale = 1 / Math.sqrt(query.length), cap }: AttentionQuery,
): Float32Array {
  const scores: number[] = [];
  for (let key = first; key < end; key++) {
    const k = pool.at('key', blockTable, key, kvHead);
    let product = 0;
    for (let d = 0; d < query.length; d++) product += query[d]! * k[d]!;
    const score = product * scale;
    scores.push(cap === undefined ? score : cap * Math.tanh(score / cap));
  }
  const high = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const output = new Float64Array(query.length);
  let sum = 0;
  scores.forEach((score, i) => {
    const weight = Math.exp(score - high);
    sum += weight;
    const v = pool.at('value', blockTable, first + i, kvHead);
    for (let d = 0; d < query.length; d++) output[d]! += weight * v[d]!;
  });
  return Float32Array.from(output, (value) => value / sum);
}
