import type { Gpu } from './gpu.ts';
import { rowBytes, WEIGHT_FORMATS, type WeightFormat } from './weight-format.ts';

/** Bytes of source that are held at once while a matrix is uploaded. */
const UPLOAD_BYTES = 8 << 20;

/** A matrix to load, in row-major order: where its rows come from and how they are written there. */
export interface MatrixSource {
  readonly label: string;
  readonly rows: number;
  readonly format: WeightFormat;
  /** `length` bytes from byte `from` of the matrix. */
  read(from: number, length: number): Promise<Uint8Array>;
}

/** Consecutive rows of a weight matrix in one buffer and one format. */
export interface MatrixPart {
  readonly firstRow: number;
  readonly rows: number;
  readonly format: WeightFormat;
  /** Rows of rowBytes(format, columns). */
  readonly buffer: GPUBuffer;
}

/** A part to be: which rows of which source it takes. */
interface PartPlan {
  readonly firstRow: number;
  readonly format: WeightFormat;
  readonly pieces: { readonly source: MatrixSource; readonly from: number; readonly rows: number }[];
}

/**
 * A weight matrix on the GPU: rows × columns in parts. Kernels that take it (linear, embedding) dispatch once a part;
 * models don't see where the cuts are.
 */
export class WeightMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly parts: readonly MatrixPart[];
  readonly bytes: number;

  private constructor(rows: number, columns: number, parts: readonly MatrixPart[]) {
    this.rows = rows;
    this.columns = columns;
    this.parts = parts;
    this.bytes = parts.reduce((sum, part) => sum + part.rows * rowBytes(part.format, columns), 0);
  }

  /**
   * Loads `sources` one below the other. Neighbours of one format share a part, up to the device's binding limit.
   * Holds some 8 MiB of source bytes at a time.
   */
  static async load(gpu: Gpu, columns: number, sources: readonly MatrixSource[]): Promise<WeightMatrix> {
    const parts: MatrixPart[] = [];
    for (const plan of planParts(columns, sources, gpu.bindingLimit)) {
      const rows = plan.pieces.reduce((sum, piece) => sum + piece.rows, 0);
      const stride = rowBytes(plan.format, columns);
      const label = plan.pieces.map((piece) => piece.source.label).join(' | ');
      const buffer = await gpu.storage(label, rows * stride);
      parts.push({ firstRow: plan.firstRow, rows, format: plan.format, buffer });
      let row = 0;
      for (const piece of plan.pieces) {
        await uploadRows(gpu, buffer, row * stride, columns, piece.source, piece.from, piece.rows);
        row += piece.rows;
      }
    }
    return new WeightMatrix(
      sources.reduce((sum, source) => sum + source.rows, 0),
      columns,
      parts,
    );
  }
}

/** Cuts `sources`, one below the other, into parts of one format and at most `limit` bytes. */
export function planParts(columns: number, sources: readonly MatrixSource[], limit: number): PartPlan[] {
  const plans: PartPlan[] = [];
  let firstRow = 0;
  let room = 0;
  for (const source of sources) {
    const rowsAPart = Math.floor(limit / rowBytes(source.format, columns));
    if (rowsAPart < 1) {
      throw new RangeError(
        `${source.label}: one row of ${columns} columns is over the binding limit of ${limit} bytes`,
      );
    }
    let from = 0;
    while (from < source.rows) {
      let plan = plans.at(-1);
      if (!plan || plan.format !== source.format || room === 0) {
        plan = { firstRow, format: source.format, pieces: [] };
        plans.push(plan);
        room = rowsAPart;
      }
      const rows = Math.min(room, source.rows - from);
      plan.pieces.push({ source, from, rows });
      from += rows;
      firstRow += rows;
      room -= rows;
    }
  }
  return plans;
}

async function uploadRows(
  gpu: Gpu,
  buffer: GPUBuffer,
  offset: number,
  columns: number,
  source: MatrixSource,
  from: number,
  rows: number,
): Promise<void> {
  const dense = columns * WEIGHT_FORMATS[source.format].bytes;
  const stride = rowBytes(source.format, columns);
  const rowsAtOnce = Math.max(1, Math.floor(UPLOAD_BYTES / stride));
  for (let row = 0; row < rows; row += rowsAtOnce) {
    const count = Math.min(rowsAtOnce, rows - row);
    const bytes = await source.read((from + row) * dense, count * dense);
    gpu.device.queue.writeBuffer(buffer, offset + row * stride, padRows(bytes, count, dense, stride));
    // Without a wait the queue would hold a second copy of a large matrix.
    if (row + rowsAtOnce < rows) await gpu.device.queue.onSubmittedWorkDone();
  }
}

/** `count` rows of `dense` bytes, each followed by zeros up to `stride` bytes. */
function padRows(bytes: Uint8Array, count: number, dense: number, stride: number): Uint8Array<ArrayBuffer> {
  if (dense === stride) return bytes as Uint8Array<ArrayBuffer>;
  const padded = new Uint8Array(count * stride);
  for (let row = 0; row < count; row++) {
    padded.set(bytes.subarray(row * dense, (row + 1) * dense), row * stride);
  }
  return padded;
}
