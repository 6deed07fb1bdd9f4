import type { LowRankMatrices, LowRankShape } from '../low-rank-slots.ts';
import type { SequenceEntry } from '../pack-step.ts';
import type { Random } from './random.ts';

/** An adapter's updates, one of `ranks` each module: 0 leaves it alone. */
export function anyUpdates(
  random: Random,
  shape: LowRankShape,
  ranks: readonly number[],
): (LowRankMatrices | undefined)[] {
  return shape.outputs.map((outputs, module) => {
    const rank = ranks[module]!;
    if (rank === 0) return undefined;
    return { rank, a: random.normals(rank * shape.columns, 0.3), b: random.normals(outputs * rank, 0.3) };
  });
}

/** Sequences with so many rows each, and their adapter slots. */
export function stepOf(all: readonly (readonly [rows: number, adapter?: number])[]): SequenceEntry[] {
  return all.map(([rows, adapter], slot) => ({
    ...{ slot, tokens: new Uint32Array(rows), startPosition: 0, blockTable: [slot] },
    ...(adapter === undefined ? {} : { adapter }),
  }));
}
