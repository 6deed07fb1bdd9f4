import type { Gpu } from './gpu.ts';
import { rowsOf } from './plan-parts.ts';
import { planSegments, segmentTiles } from './plan-segments.ts';
import { type AnySource, loadParts, type MatrixPart } from './weight-matrix.ts';

interface SegmentedShape {
  readonly segments: number;
  /** Of a segment. */
  readonly rows: number;
  readonly columns: number;
  readonly paired: boolean;
}

/**
 * Matrices of one shape on the GPU, one a segment: experts. Each begins with a whole tile; parts are cut at the binding limit,
 * at whole segments where one fits. SegmentedLinear takes it.
 */
export class SegmentedMatrix {
  readonly segments: number;
  /** Of a segment. */
  readonly rows: number;
  readonly columns: number;
  /** Whether a segment's first half of rows lies in pairs with its second (gate and up). */
  readonly paired: boolean;
  /** Of a segment. */
  readonly tiles: number;
  /** Their firstRow counts whole tiles of all segments: 64 rows a tile. */
  readonly parts: readonly MatrixPart[];
  readonly bytes: number;

  private constructor({ segments, rows, columns, paired }: SegmentedShape, parts: readonly MatrixPart[]) {
    this.segments = segments;
    this.rows = rows;
    this.columns = columns;
    this.paired = paired;
    this.tiles = segmentTiles(rows, paired);
    this.parts = parts;
    this.bytes = parts.reduce((sum, part) => sum + part.buffer.size, 0);
  }

  /**
   * Loads segments, each of sources one below the other. Undefined, and nothing loaded, where one's are of several
   * formats; quantised ones get f32 scales together. Throws RangeError where segments differ in rows, or a tile doesn't
   * fit. Frees what it allocated where it fails.
   */
  static async load(
    gpu: Gpu,
    columns: number,
    segments: readonly (readonly AnySource[])[],
    paired = false,
  ): Promise<SegmentedMatrix | undefined> {
    const perSegment = segments[0]!.length;
    const parts = await loadParts(
      gpu,
      columns,
      segments.flat(),
      (wanted) => {
        const own = segments.map((_, i) => wanted.slice(i * perSegment, (i + 1) * perSegment));
        return planSegments(columns, own, gpu.bindingLimit, paired);
      },
      true,
    );
    const rows = rowsOf(segments[0]!);
    return parts && new SegmentedMatrix({ segments: segments.length, rows, columns, paired }, parts);
  }
}
