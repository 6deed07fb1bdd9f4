import type { Gpu } from './gpu.ts';
import { packFloats, packQuants, packScales } from './pack-tiles.ts';
import { type PartPlan, planPairedParts, planParts, rowsOf } from './plan-parts.ts';
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

/** Values of a stretch of tiles, which are held while it is uploaded: as they come, as floats, as quants and packed. */
const UPLOAD_VALUES = 2 << 20;

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
  /**
   * Packs places.length rows from row `from` on as packQuants and packScales pack what readRows gives, in one go, with scales
   * as halves. False where these are not exact. Absent: there is no shorter way.
   */
  readonly packRows?:
    | ((
        weights: Uint32Array,
        scales: Uint32Array,
        places: Int32Array,
        columns: number,
        from: number,
      ) => Promise<boolean>)
    | undefined;
}

export type AnySource = MatrixSource | QuantSource;

/** A range of a part's buffer: one plane of words, in tiles. */
export interface Plane {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/** Consecutive rows, or pairs of rows, of a weight matrix in one buffer and one format. */
export interface MatrixPart {
  /** Or its first pair. */
  readonly firstRow: number;
  /** Or pairs. */
  readonly rows: number;
  readonly tiles: number;
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
  /** Whether its rows lie in pairs, as only some kernels take them. */
  readonly paired: boolean;

  private constructor(rows: number, columns: number, parts: readonly MatrixPart[], paired: boolean) {
    this.rows = rows;
    this.columns = columns;
    this.parts = parts;
    this.bytes = parts.reduce((sum, part) => sum + part.buffer.size, 0);
    this.paired = paired;
  }

  /**
   * Loads `sources` one below the other. Neighbours of one format share a part, up to the device's binding limit.
   * Holds some two million values at a time, in up to four forms.
   */
  static async load(gpu: Gpu, columns: number, sources: readonly AnySource[]): Promise<WeightMatrix> {
    const parts = await loadParts(gpu, columns, sources, (wanted) => planParts(columns, wanted, gpu.bindingLimit));
    return new WeightMatrix(rowsOf(sources), columns, parts!, false);
  }

  /**
   * Loads `sources` with row r of each 2 · half rows beside row r + half of them, so that one thread has both.
   * Undefined, and nothing loaded, where formats change inside of such rows.
   */
  static async loadPaired(
    gpu: Gpu,
    columns: number,
    sources: readonly AnySource[],
    half: number,
  ): Promise<WeightMatrix | undefined> {
    const parts = await loadParts(gpu, columns, sources, (wanted) =>
      planPairedParts(columns, wanted, gpu.bindingLimit, half),
    );
    return parts && new WeightMatrix(rowsOf(sources), columns, parts, true);
  }
}

/** How sources are cut; undefined: they can't be. */
export type Plan = (sources: readonly AnySource[]) => PartPlan<AnySource>[] | undefined;

/**
 * Loads what `plan` says, with f32 scales where halves turn out not to hold them: of the source that has them, or of all
 * where these must keep one format.
 */
export async function loadParts(
  gpu: Gpu,
  columns: number,
  sources: readonly AnySource[],
  plan: Plan,
  oneFormat = false,
): Promise<MatrixPart[] | undefined> {
  let wanted = sources;
  for (;;) {
    const plans = plan(wanted);
    if (!plans) return undefined;
    try {
      return await loadPlans(gpu, columns, plans);
    } catch (error) {
      if (!(error instanceof InexactScales)) throw error;
      // Each turn makes some source's scales f32, so this ends.
      wanted = wanted.map((source) =>
        isQuantSource(source) && (oneFormat || source === error.source) ? withWideScales(source) : source,
      );
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

async function loadPlans(gpu: Gpu, columns: number, plans: readonly PartPlan<AnySource>[]): Promise<MatrixPart[]> {
  const parts: MatrixPart[] = [];
  try {
    for (const plan of plans) {
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
  const { firstRow, rows, tiles, format } = plan;
  const label = plan.pieces.map(({ source }) => source.label).join(' | ');
  const buffer = await gpu.storage(label, tiles * tileBytes(format, columns));
  let offset = 0;
  const planes = matrixLayout(format).planes.map((bytes): Plane => {
    // A whole number of tiles of words of at least 4 bytes: planes begin at multiples of 256.
    const size = tiles * TILE_ROWS * wordsOfRow(format, columns) * bytes;
    offset += size;
    return { buffer, offset: offset - size, size };
  });
  return { firstRow, rows, tiles, format, buffer, planes };
}

/** Fills a part, a stretch of whole tiles after another. */
async function uploadPart(gpu: Gpu, columns: number, plan: PartPlan<AnySource>, part: MatrixPart): Promise<void> {
  const { queue } = gpu.device;
  const { tiles, planes } = part;
  const tilesAtOnce = Math.max(1, Math.floor(UPLOAD_VALUES / (TILE_ROWS * columns)));
  for (let first = 0; first < tiles; first += tilesAtOnce) {
    const count = Math.min(tilesAtOnce, tiles - first);
    const [from, to] = [first * TILE_ROWS, (first + count) * TILE_ROWS];
    const stretches = planes.map(({ size }) => new Uint32Array((size / 4 / tiles) * count));
    for (const piece of plan.pieces) {
      if (piece.within && (piece.within[0] >= to || piece.within[1] <= from)) continue;
      const places = placesWithin(plan, piece.at, piece.rows, from, to - from);
      if (places) await packRows(stretches, places.places, columns, piece.source, piece.from + places.skipped);
    }
    planes.forEach(({ buffer, offset, size }, i) => {
      queue.writeBuffer(buffer, offset + (size / tiles) * first, stretches[i]!);
    });
    // Without a wait the queue would hold a second copy of a large matrix.
    if (first + count < tiles) await queue.onSubmittedWorkDone();
  }
}

/**
 * Of rows [at, at + rows) those from the first to the last that lie in tile rows [first, first + count): how many come
 * before them, and where each lies, counted from `first`; −1: not there. Undefined: none.
 */
function placesWithin(plan: PartPlan<AnySource>, at: number, rows: number, first: number, count: number) {
  const all = new Int32Array(rows);
  let skipped = rows;
  let end = 0;
  for (let i = 0; i < rows; i++) {
    const place = plan.place(at + i) - first;
    const inside = place >= 0 && place < count;
    all[i] = inside ? place : -1;
    if (!inside) continue;
    skipped = Math.min(skipped, i);
    end = i + 1;
  }
  return end === 0 ? undefined : { skipped, places: all.subarray(skipped, end) };
}

/** Reads the rows of a source from `from` on and packs them where `places` says. */
async function packRows(
  stretches: readonly Uint32Array[],
  places: Int32Array,
  columns: number,
  source: AnySource,
  from: number,
): Promise<void> {
  if (!isQuantSource(source)) {
    const { bytes } = WEIGHT_FORMATS[source.format];
    const read = await source.read(from * columns * bytes, places.length * columns * bytes);
    packFloats(stretches[0]!, places, columns, read, bytes as 2 | 4);
    return;
  }
  if (source.packRows) {
    const exact = await source.packRows(stretches[0]!, stretches[1]!, places, columns, from);
    if (!exact) throw new InexactScales(source);
    return;
  }
  const shape = quantShape(source.format);
  const rows = await source.readRows(from, places.length);
  packQuants(stretches[0]!, places, columns, rows.quants, shape.bits);
  if (!packScales(stretches[1]!, places, columns, rows, shape)) throw new InexactScales(source);
}

export function isQuantSource(source: AnySource): source is QuantSource {
  return isQuantFormat(source.format);
}
