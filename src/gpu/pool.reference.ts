import type { PoolKind } from './pool.ts';

/** What pooling makes of rows [count, columns]: [columns], in float64. */
export function poolReference(rows: ArrayLike<number>, columns: number, kind: PoolKind): Float64Array<ArrayBuffer> {
  const count = rows.length / columns;
  return Float64Array.from({ length: columns }, (_, column) => {
    const values = Array.from({ length: count }, (_, row) => rows[row * columns + column]!);
    switch (kind) {
      case 'mean':
        return values.reduce((sum, value) => sum + value, 0) / count;
      case 'cls':
        return values[0]!;
      case 'last':
        return values.at(-1)!;
      case 'max':
        return values.reduce((a, b) => Math.max(a, b));
    }
  });
}
