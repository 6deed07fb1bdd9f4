import code from '../../shaders/norm-input.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';
import { TILE_ROWS } from './weight-format.ts';

export interface NormInputBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** The norm's weights, [columns padded to 4] f32. */
  readonly gain: GPUBuffer;
  /** Like `input`, another buffer. */
  readonly scaled: GPUBuffer;
  /** [rows, squaresWords(columns)] vec4. */
  readonly squares: GPUBuffer;
}

/** Sums of squares of a row of `columns`, in words of four: one of eight numbers. */
export function squaresWords(columns: number): number {
  return (Math.ceil(columns / TILE_ROWS) * 8) / 4;
}

/** What a product of normed rows asks for, of rows that no product left so; see shaders/norm-input.wgsl. */
export class NormInput {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #lanes: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, lanes: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#lanes = lanes;
  }

  /** Compiled once for all shapes. */
  static compile(gpu: Gpu): Promise<Kernel> {
    return Kernel.compile(gpu, {
      name: 'norm-input',
      code: [code],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'write'],
    });
  }

  static async create(gpu: Gpu, columns: number, buffers: NormInputBuffers): Promise<NormInput> {
    const kernel = await NormInput.compile(gpu);
    const lanes = 4 * squaresWords(columns);
    const group = await kernel.bind(
      [columns, 4 * rowWords(columns), lanes],
      [buffers.step, buffers.input, buffers.gain, buffers.scaled, buffers.squares],
    );
    return new NormInput(kernel, group, lanes);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, rows * this.#lanes);
  }
}
