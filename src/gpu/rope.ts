import code from '../../shaders/rope.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { KV_FORMATS, type KvFormat } from './kv-format.ts';
import { FIRST_TABLE_WORD } from './step-layout.ts';
import { expandTemplate } from './template.ts';

/** RMS norm of queries and keys: each head by itself, or all heads of a row together. */
export type QkNorm = 'head' | 'row';

export interface RopeShape {
  readonly heads: number;
  readonly kvHeads: number;
  /** Numbers of a head; four divides it. */
  readonly headSize: number;
  readonly kvFormat: KvFormat;
  /** Numbers of a head that are rotated, the first ones; 0: none. Default: all. */
  readonly rotated?: number;
  readonly qkNorm?: { readonly of: QkNorm; readonly epsilon: number } | undefined;
  /** Biases are added first. */
  readonly biased?: boolean;
  /** Which word of a sequence's metadata has its block table; default: that of KV group 0. */
  readonly tableWord?: number;
}

export interface RopeBuffers {
  readonly step: GPUBuffer;
  /** [rows, (heads + 2 kvHeads) headSize] f32. */
  readonly qkv: GPUBuffer;
  /** [positions, rotated / 2, 2] f32, of ropeTable; where something is rotated. */
  readonly table: GPUBuffer | undefined;
  /** [rows, heads, headSize] f32. */
  readonly query: GPUBuffer;
  /** [blocks, 2, kvHeads, 16, headSize]. */
  readonly kv: GPUBuffer;
  /**
   * Where there are biases or a norm: [(heads + 2 kvHeads) headSize] f32 biases, whatever they are where there are none, then the
   * norm's weights: [2, headSize], or of a row [(heads + kvHeads) headSize].
   */
  readonly more?: GPUBuffer | undefined;
}

/** Biases, norms and rotary position embedding of q, k and v, and the write of K and V into the block pool; see shaders/rope.wgsl. */
export class Rope {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  /** 0: a workgroup a row. */
  readonly #threadsARow: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, threadsARow: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#threadsARow = threadsARow;
  }

  /** Compiles what such a shape asks for. */
  static compile(gpu: Gpu, { kvFormat, qkNorm }: RopeShape): Promise<Kernel> {
    const row = qkNorm?.of === 'row';
    const counts = { HEAD_NORM: qkNorm?.of === 'head' ? 1 : 0, ROW_NORM: row ? 1 : 0, THREAD_A_WORD: row ? 0 : 1 };
    return Kernel.compile(gpu, {
      name: `rope ${kvFormat}${qkNorm ? ` ${qkNorm.of} norm` : ''}`,
      code: [stepCode, KV_FORMATS[kvFormat].code, expandTemplate(code, counts)],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'write', 'read'],
    });
  }

  static async create(gpu: Gpu, shape: RopeShape, buffers: RopeBuffers): Promise<Rope> {
    const { heads, kvHeads, headSize, rotated = headSize, qkNorm, biased = false } = shape;
    if ((qkNorm || biased) && !buffers.more) throw new RangeError('biases and norms of q and k need their buffer');
    if (rotated > 0 && !buffers.table) throw new RangeError('a rotation needs its table');
    const kernel = await Rope.compile(gpu, shape);
    const words = headSize / 4;
    const allHeads = heads + 2 * kvHeads;
    const group = await kernel.bind(
      [
        ...[heads, kvHeads, words, allHeads * headSize, rotated / 2],
        ...[shape.tableWord ?? FIRST_TABLE_WORD, biased ? 1 : 0, { f32: qkNorm?.epsilon ?? 0 }],
      ],
      [
        ...[buffers.step, buffers.qkv, buffers.table ?? buffers.step, buffers.query, buffers.kv],
        buffers.more ?? buffers.step,
      ],
    );
    return new Rope(kernel, group, qkNorm?.of === 'row' ? 0 : allHeads * words);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    if (this.#threadsARow === 0) this.#kernel.dispatch(pass, this.#group, rows);
    else this.#kernel.dispatchThreads(pass, this.#group, rows * this.#threadsARow);
  }
}
