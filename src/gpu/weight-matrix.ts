import type { Gpu } from './gpu.ts';
import { packFloats, packQuants, packScales } from './pack-tiles.ts';
import { type PartPlan, planParts } from './plan-parts.ts';
import { type QuantFormat, type QuantRows, quantFormat, quantShape } from './quant-format.ts';
import {
  isQuantFormat,
  type MatrixFormat,
  matrixLayout,
  TILE_ROWS,
  tileBytes,
  WEIGHT_FORMATS,
  type WeightFormat,
  wordsOfRow,
} from './weight-format.ts';

/** Bytes of a stretch of tiles that are held at once while a matrix is uploaded. */
const UPLOAD_BYTES = 8 << 20;

/** A matrix of floats to load, in row-major order: where its rows come from and how they are written there. */
export interface MatrixSource {
  readonly label: string;
  readonly rows: number;
  readonly format: WeightFormat;
  /** `length` bytes from byte `from` of the matrix. */
  read(from: number, length: number): Promise<Uint8Array>;
}

/** A quantised matrix to load; UNIT_COLUMNS divides its columns. */
export interface QuantSource {
  readonly label: string;
  readonly rows: number;
  /** Where scales turn out not to be exact as halves, the matrix is kept with f32 ones. */
  readonly format: QuantFormat;
  /** `count` rows from row `from` on. */
  readRows(from: number, count: number): Promise<QuantRows>;
}

export type AnySource = MatrixSource | QuantSource;

/** A range of a part's buffer: one plane of words, in tiles. */
export interface Plane {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/** Consecutive rows of a weight matrix in one buffer and one format. */
export interface MatrixPart {
  readonly firstRow: number;
  readonly rows: number;
  readonly format: MatrixFormat;
  readonly buffer: GPUBuffer;
  /** Weights, then scales where the format has them. */
  readonly planes: readonly Plane[];
}

/** Scales that halves can't hold exactly. */
class InexactScales extends Error {
  readonly source: QuantSource;

  constructor(source: QuantSource) {
    super(`${source.label}: scales that halves can't hold`);
    this.source = source;
  }
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
    this.bytes = parts.reduce((sum, part) => sum + part.buffer.size, 0);
  }

  /**
   * Loads `sources` one below the other. Neighbours of one format share a part, up to the device's binding limit.
   * Holds some 8 MiB of packed rows at a time, and what they are read from.
   */
  static async load(gpu: Gpu, columns: number, sources: readonly AnySource[]): Promise<WeightMatrix> {
    let wanted = sources;
    for (;;) {
      try {
        const parts = await loadParts(gpu, columns, wanted);
        return new WeightMatrix(
          sources.reduce((sum, source) => sum + source.rows, 0),
          columns,
          parts,
        );
      } catch (error) {
        if (!(error instanceof InexactScales)) throw error;
        // Each turn makes one source's scales f32, so this ends.
        wanted = wanted.map((source) => (source === error.source ? withWideScales(error.source) : source));
      }
    }
  }
}

function withWideScales(source: QuantSource): QuantSource {
  return {
    label: source.label,
    rows: source.rows,
    format: quantFormat({ ...quantShape(source.format), scale: 'f32' }),
    readRows: (from, count) => source.readRows(from, count),
  };
}

async function loadParts(gpu: Gpu, columns: number, sources: readonly AnySource[]): Promise<MatrixPart[]> {
  const parts: MatrixPart[] = [];
  try {
    for (const plan of planParts(columns, sources, gpu.bindingLimit)) {
      const part = await allocatePart(gpu, columns, plan);
      parts.push(part);
      await uploadPart(gpu, columns, plan, part);
    }
    return parts;
  } catch (error) {
    for (const part of parts) gpu.buffers.free(part.buffer);
    throw error;
  }
}

async function allocatePart(gpu: Gpu, columns: number, plan: PartPlan<AnySource>): Promise<MatrixPart> {
  const { firstRow, rows, format } = plan;
  const tiles = Math.ceil(rows / TILE_ROWS);
  const label = plan.pieces.map(({ source }) => source.label).join(' | ');
  const buffer = await gpu.storage(label, tiles * tileBytes(format, columns));
  let offset = 0;
  const planes = matrixLayout(format).planes.map((bytes): Plane => {
    // A whole number of tiles of words of at least 4 bytes: planes begin at multiples of 256.
    const size = tiles * TILE_ROWS * wordsOfRow(format, columns) * bytes;
    offset += size;
    return { buffer, offset: offset - size, size };
  });
  return { firstRow, rows, format, buffer, planes };
}

/** Fills a part, a stretch of whole tiles after another. */
async function uploadPart(gpu: Gpu, columns: number, plan: PartPlan<AnySource>, part: MatrixPart): Promise<void> {
  const { queue } = gpu.device;
  const stretchRows = TILE_ROWS * Math.max(1, Math.floor(UPLOAD_BYTES / tileBytes(part.format, columns)));
  for (let first = 0; first < part.rows; first += stretchRows) {
    const rows = Math.min(stretchRows, part.rows - first);
    const tiles = Math.ceil(rows / TILE_ROWS);
    const rowsBefore = first / TILE_ROWS;
    const words = TILE_ROWS * wordsOfRow(part.format, columns);
    const stretches = matrixLayout(part.format).planes.map((bytes) => new Uint32Array((tiles * words * bytes) / 4));
    let row = 0;
    for (const piece of plan.pieces) {
      // The piece's rows that are in this stretch.
      const from = Math.max(first, row);
      const to = Math.min(first + rows, row + piece.rows);
      if (from < to) {
        await packRows(stretches, from - first, columns, piece.source, piece.from + from - row, to - from);
      }
      row += piece.rows;
    }
    part.planes.forEach(({ buffer, offset, size }, i) => {
      const bytesATile = size / Math.ceil(part.rows / TILE_ROWS);
      queue.writeBuffer(buffer, offset + rowsBefore * bytesATile, stretches[i]!);
    });
    // Without a wait the queue would hold a second copy of a large matrix.
    if (first + rows < part.rows) await queue.onSubmittedWorkDone();
  }
}

/** Reads `count` rows of a source and packs them at row `row` of a stretch. */
async function packRows(
  stretches: readonly Uint32Array[],
  row: number,
  columns: number,
  source: AnySource,
  from: number,
  count: number,
): Promise<void> {
  if (!isQuantSource(source)) {
    const { bytes } = WEIGHT_FORMATS[source.format];
    const read = await source.read(from * columns * bytes, count * columns * bytes);
    packFloats(stretches[0]!, row, columns, read, bytes as 2 | 4);
    return;
  }
  const shape = quantShape(source.format);
  const rows = await source.readRows(from, count);
  packQuants(stretches[0]!, row, columns, rows.quants, shape.bits);
  if (!packScales(stretches[1]!, row, columns, rows, shape)) throw new InexactScales(source);
}

export function isQuantSource(source: AnySource): source is QuantSource {
  return isQuantFormat(source.format);
}
