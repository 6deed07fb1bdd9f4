import groupCode from '../../shaders/group-entries.wgsl?raw';
import entriesCode from '../../shaders/segment-entries.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';

/** In a list of entries: this one has no segment, and no product is computed of it. */
export const NO_SEGMENT = 0xffffffff;

/** Entries of a group: what one thread of a product takes at once. */
export const GROUP_ENTRIES = 4;

/** Workgroup memory that counts are kept in: three words a segment, of 16 KiB that every device has. */
export const MOST_SEGMENTS = 1024;

export interface EntriesShape {
  readonly segments: number;
  /** Of each row of a step: its chosen experts. */
  readonly entriesARow: number;
  readonly maxRows: number;
}

/**
 * Which segments the rows of a step name: entry e = row · entriesARow + i is the row's i-th. A kernel (a router's) writes
 * `list`, then `encode` puts entries of one segment together where rows are
 * many enough for that to pay. SegmentedLinear takes it. Steps that follow one another in a pass may share one.
 */
export class SegmentEntries {
  readonly segments: number;
  readonly entriesARow: number;
  /** [maxRows · entriesARow] u32 for a kernel to write: a segment, or NO_SEGMENT. */
  readonly list: GPUBuffer;
  /** See shaders/group-entries.wgsl. */
  readonly groups: GPUBuffer;
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;

  private constructor(shape: EntriesShape, list: GPUBuffer, groups: GPUBuffer, kernel: Kernel, group: GPUBindGroup) {
    this.segments = shape.segments;
    this.entriesARow = shape.entriesARow;
    this.list = list;
    this.groups = groups;
    this.#kernel = kernel;
    this.#group = group;
  }

  /** Throws RangeError where there are too many segments. */
  static async create(gpu: Gpu, shape: EntriesShape, step: GPUBuffer): Promise<SegmentEntries> {
    const { segments, entriesARow, maxRows } = shape;
    if (segments < 1 || segments > MOST_SEGMENTS) throw new RangeError(`${segments} segments; 1 to ${MOST_SEGMENTS}`);
    const most = mostGroups(shape, maxRows);
    const [list, groups, kernel] = await Promise.all([
      gpu.storage('entries', 4 * maxRows * entriesARow),
      gpu.storage('groups of entries', 4 * (1 + most * (GROUP_ENTRIES + 1))),
      Kernel.compile(gpu, {
        name: 'group-entries',
        code: [entriesCode, groupCode],
        constants: { SEGMENTS: segments, GROUP: GROUP_ENTRIES },
        bindings: ['uniform', 'read', 'read', 'write'],
      }),
    ]);
    const group = await kernel.bind([entriesARow], [step, list, groups]);
    return new SegmentEntries(shape, list, groups, kernel, group);
  }

  /** Whether products of so many rows take groups: from two entries a segment on. */
  grouped(rows: number): boolean {
    return rows * this.entriesARow > 2 * this.segments;
  }

  /** Groups that so many rows have at most. */
  mostGroups(rows: number): number {
    return mostGroups(this, rows);
  }

  /** Once the list is written, before products. */
  encode(pass: GPUComputePassEncoder, rows: number): void {
    if (this.grouped(rows)) this.group(pass);
  }

  /** Makes groups, however many rows there are. */
  group(pass: GPUComputePassEncoder): void {
    this.#kernel.dispatch(pass, this.#group, 1);
  }
}

/** Each segment's last group may be short. */
function mostGroups({ segments, entriesARow }: Omit<EntriesShape, 'maxRows'>, rows: number): number {
  const entries = rows * entriesARow;
  return Math.min(entries, Math.floor((entries + segments * (GROUP_ENTRIES - 1)) / GROUP_ENTRIES));
}
