import code from '../../shaders/kv-copy.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';

export interface KvCopyBuffers {
  readonly step: GPUBuffer;
  /** [blocks, blockBytes]. */
  readonly kv: GPUBuffer;
}

/** Copies whole KV blocks of one layer, as the step's metadata says; see shaders/kv-copy.wgsl. */
export class KvCopy {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #blockWords: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, blockWords: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#blockWords = blockWords;
  }

  /** `blockBytes`: of one block; 16 divides it, whatever the format of its numbers. `kvGroup`: the layer's. */
  static async create(gpu: Gpu, blockBytes: number, buffers: KvCopyBuffers, kvGroup = 0): Promise<KvCopy> {
    const kernel = await Kernel.compile(gpu, {
      name: 'kv-copy',
      code: [stepCode, code],
      bindings: ['uniform', 'read', 'write'],
    });
    const blockWords = blockBytes / 16;
    return new KvCopy(kernel, await kernel.bind([blockWords, kvGroup], [buffers.step, buffers.kv]), blockWords);
  }

  encode(pass: GPUComputePassEncoder, copies: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, copies * this.#blockWords);
  }
}
