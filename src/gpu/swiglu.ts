import code from '../../shaders/swiglu.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';

export interface SwigluBuffers {
  readonly step: GPUBuffer;
  /** [rows, 2 columns padded to 4] f32: gate, then up. */
  readonly input: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly output: GPUBuffer;
}

/** SiLU of the gate, times up (Shazeer, "GLU variants improve Transformer", 2020); see shaders/swiglu.wgsl. */
export class Swiglu {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #columns: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, columns: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#columns = columns;
  }

  static async create(gpu: Gpu, columns: number, buffers: SwigluBuffers): Promise<Swiglu> {
    const kernel = await Kernel.compile(gpu, {
      name: 'swiglu',
      code: [code],
      bindings: ['uniform', 'read', 'read', 'write'],
    });
    const group = await kernel.bind(
      [columns, 4 * rowWords(2 * columns), 4 * rowWords(columns)],
      [buffers.step, buffers.input, buffers.output],
    );
    return new Swiglu(kernel, group, columns);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, rows * this.#columns);
  }
}
