import { ACTIVATIONS, type Activation } from './activation.ts';
import type { Gpu } from './gpu.ts';
import type { Kernel } from './kernel.ts';
import { tellWork } from './kernel-work.ts';
import type { LinearPartShape } from './linear-choice.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import type { SegmentEntries } from './segment-entries.ts';
import { compileSegmented, type SegmentedChoice, segmentedChoice } from './segmented-kernel.ts';
import type { SegmentedMatrix } from './segmented-matrix.ts';
import { TILE_ROWS, wordsOfRow } from './weight-format.ts';
import type { MatrixPart } from './weight-matrix.ts';

export interface SegmentedBuffers {
  readonly step: GPUBuffer;
  /** [rows or entries, matrix columns padded to 4] f32, zero past the columns. */
  readonly input: GPUBuffer;
  /** [entries, outputStride] f32; another buffer. */
  readonly output: GPUBuffer;
}

/** What becomes of the sums; see shaders/segmented-linear.wgsl. */
export type SegmentedFinish =
  | { readonly kind: 'store' }
  /** Of paired matrices: activation(gate) · up. */
  | { readonly kind: 'gate'; readonly activation: Activation }
  /** Those two in turn, where gate and up are matrices of their own: what was stored is multiplied. */
  | { readonly kind: 'activate'; readonly activation: Activation }
  | { readonly kind: 'multiply' };

export interface SegmentedShape {
  /** Numbers from one entry of `output` to the next. */
  readonly outputStride: number;
  /** The first column of `output` that is the product's; default: 0. */
  readonly outputAt?: number;
  /** Whether `input` has a row for each row of the step, or for each entry. */
  readonly input: 'row' | 'entry';
  /** Default: store. */
  readonly finish?: SegmentedFinish;
  /** The input is yet to be divided by its root mean square, as a Linear's; only of `row` inputs. */
  readonly norm?: { readonly epsilon: number; readonly squares: GPUBuffer };
}

interface SegmentedPart {
  readonly single: Kernel;
  readonly grouped: Kernel;
  readonly singleGroup: GPUBindGroup;
  readonly groupedGroup: GPUBindGroup;
  /** Threads that an entry, or a group of entries, has. */
  readonly singleThreads: number;
  readonly groupedThreads: number;
}

/**
 * Products of rows, each with the segment of a matrix that an entry names: its experts. Entries with NO_SEGMENT leave
 * the output as it is. Few rows: an entry by itself, so that only segments which are named are read; many: groups of
 * entries of one segment. A row's sums have one order either way, that of a Linear with the same shape of segment.
 */
export class SegmentedLinear {
  readonly #entries: SegmentEntries;
  readonly #parts: readonly SegmentedPart[];

  private constructor(entries: SegmentEntries, parts: readonly SegmentedPart[]) {
    this.#entries = entries;
    this.#parts = parts;
  }

  /** Throws RangeError where matrix, entries and shape don't fit together. */
  static async create(
    gpu: Gpu,
    matrix: SegmentedMatrix,
    entries: SegmentEntries,
    shape: SegmentedShape,
    buffers: SegmentedBuffers,
    choose: (part: MatrixPart) => SegmentedChoice = ({ tiles, format }) =>
      segmentedChoice(gpu.device, { tiles, columns: matrix.columns, format }),
  ): Promise<SegmentedLinear> {
    const { kind } = shape.finish ?? { kind: 'store' };
    if (matrix.paired !== (kind === 'gate')) {
      throw new RangeError(`${kind} of segments whose rows are ${matrix.paired ? '' : 'not '}paired`);
    }
    if (matrix.segments !== entries.segments) {
      throw new RangeError(`entries of ${entries.segments} segments for a matrix of ${matrix.segments}`);
    }
    if (shape.norm && shape.input !== 'row') throw new RangeError('a norm of entries; norms are of rows');
    return new SegmentedLinear(
      entries,
      await Promise.all(matrix.parts.map((part) => bindPart(gpu, matrix, part, entries, shape, buffers, choose(part)))),
    );
  }

  /** Compiles what products of such a part will ask for, so that it needn't wait for the weights. */
  static async compile(gpu: Gpu, part: LinearPartShape): Promise<void> {
    const { single, grouped } = segmentedChoice(gpu.device, part);
    await Promise.all([single, grouped].map((variant) => compileSegmented(gpu, part.format, variant)));
  }

  /** After the entries' own encode of as many rows. */
  encode(pass: GPUComputePassEncoder, rows: number, grouped = this.#entries.grouped(rows)): void {
    if (rows === 0) return;
    for (const part of this.#parts) {
      if (grouped) {
        part.grouped.dispatchThreads(pass, part.groupedGroup, part.groupedThreads * this.#entries.mostGroups(rows));
      } else {
        part.single.dispatchThreads(pass, part.singleGroup, part.singleThreads * rows * this.#entries.entriesARow);
      }
    }
  }
}

async function bindPart(
  gpu: Gpu,
  matrix: SegmentedMatrix,
  part: MatrixPart,
  entries: SegmentEntries,
  shape: SegmentedShape,
  buffers: SegmentedBuffers,
  { splits, single: singleVariant, grouped: groupedVariant }: SegmentedChoice,
): Promise<SegmentedPart> {
  const { finish = { kind: 'store' }, norm } = shape;
  const { columns, paired, rows, tiles } = matrix;
  const { entriesARow } = entries;
  const words = wordsOfRow(part.format, columns);
  const [single, grouped] = await Promise.all([
    compileSegmented(gpu, part.format, singleVariant),
    compileSegmented(gpu, part.format, groupedVariant),
  ]);
  const [weights, ...scales] = part.planes;
  const fields = [
    paired ? rows / 2 : rows,
    ...[words, Math.ceil(words / splits), rowWords(columns)],
    ...[shape.outputStride, shape.outputAt ?? 0, entriesARow],
    shape.input === 'row' ? entriesARow : 1,
    ...[tiles, part.firstRow / TILE_ROWS, part.tiles],
    ...[norm ? columns : 0, { f32: norm?.epsilon ?? 0 }, squaresWords(columns)],
    finishCode(finish),
  ];
  const bind = (kernel: Kernel, list: GPUBuffer) =>
    kernel.bind(fields, [
      ...[buffers.step, weights!, buffers.input, buffers.output, list],
      norm?.squares ?? buffers.step,
      ...scales,
    ]);
  const [singleGroup, groupedGroup] = await Promise.all([bind(single, entries.list), bind(grouped, entries.groups)]);
  const segmentBytes = (part.planes.reduce((sum, { size }) => sum + size, 0) / part.tiles) * tiles;
  for (const group of [singleGroup, groupedGroup]) {
    tellWork(group, {
      what: `${norm ? 'normed ' : ''}${finish.kind} ${entriesARow} of ${matrix.segments} × ${rows} × ${columns}`,
      // Of one row: others may name the same segments.
      bytes: Math.min(matrix.bytes, entriesARow * segmentBytes),
      flops: 2 * entriesARow * rows * columns,
      columns: 'rows',
      firstColumn: 0,
    });
  }
  const threads = (variantRows: number) => (tiles * TILE_ROWS) / variantRows;
  return {
    ...{ single, grouped, singleGroup, groupedGroup },
    singleThreads: threads(singleVariant.rows),
    groupedThreads: threads(groupedVariant.rows),
  };
}

/** As segmented-linear.wgsl has them. */
function finishCode(finish: SegmentedFinish): number {
  switch (finish.kind) {
    case 'store':
      return 0;
    case 'multiply':
      return 1;
    case 'activate':
      return 2 + ACTIVATIONS.indexOf(finish.activation);
    case 'gate':
      return 2 + ACTIVATIONS.length + ACTIVATIONS.indexOf(finish.activation);
  }
}
