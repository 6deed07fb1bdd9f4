import code from '../../shaders/rope.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { KV_FORMATS, type KvFormat } from './kv-format.ts';

export interface RopeShape {
  readonly heads: number;
  readonly kvHeads: number;
  /** Numbers of a head; four divides it. */
  readonly headSize: number;
  readonly kvFormat: KvFormat;
}

export interface RopeBuffers {
  readonly step: GPUBuffer;
  /** [rows, (heads + 2 kvHeads) headSize] f32. */
  readonly qkv: GPUBuffer;
  /** [positions, headSize / 2, 2] f32, of ropeTable. */
  readonly table: GPUBuffer;
  /** [rows, heads, headSize] f32. */
  readonly query: GPUBuffer;
  /** [blocks, 2, kvHeads, 16, headSize]. */
  readonly kv: GPUBuffer;
}

/** Rotary position embedding, and the write of K and V into the block pool; see shaders/rope.wgsl. */
export class Rope {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #threadsARow: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, threadsARow: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#threadsARow = threadsARow;
  }

  static async create(gpu: Gpu, shape: RopeShape, buffers: RopeBuffers): Promise<Rope> {
    const kernel = await Kernel.compile(gpu, {
      name: `rope ${shape.kvFormat}`,
      code: [stepCode, KV_FORMATS[shape.kvFormat].code, code],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'write'],
    });
    const words = shape.headSize / 4;
    const allHeads = shape.heads + 2 * shape.kvHeads;
    const group = await kernel.bind(
      [shape.heads, shape.kvHeads, words, allHeads * shape.headSize],
      [buffers.step, buffers.qkv, buffers.table, buffers.query, buffers.kv],
    );
    return new Rope(kernel, group, allHeads * words);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, rows * this.#threadsARow);
  }
}
