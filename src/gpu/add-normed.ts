import code from '../../shaders/add-normed.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';

export interface AddNormedBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32: what is normed and added. */
  readonly branch: GPUBuffer;
  /** The norm's weights, [columns padded to 4] f32. */
  readonly weight: GPUBuffer;
  /** Like `branch`, another buffer: what it is added to. */
  readonly hidden: GPUBuffer;
  /** Where a product of the next norm finds its input; see NormInputBuffers. */
  readonly next?: { readonly gain: GPUBuffer; readonly scaled: GPUBuffer; readonly squares: GPUBuffer } | undefined;
}

export interface AddNormedShape {
  readonly columns: number;
  readonly epsilon: number;
  /** Multiplies what is added. */
  readonly scale: number;
}

/** Adds the root mean square norm of rows to rows; see shaders/add-normed.wgsl. */
export class AddNormed {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;

  private constructor(kernel: Kernel, group: GPUBindGroup) {
    this.#kernel = kernel;
    this.#group = group;
  }

  /** Compiled once for all shapes. */
  static compile(gpu: Gpu): Promise<Kernel> {
    return Kernel.compile(gpu, {
      name: 'add-normed',
      code: [code],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'read', 'write', 'write'],
    });
  }

  static async create(gpu: Gpu, shape: AddNormedShape, buffers: AddNormedBuffers): Promise<AddNormed> {
    const { columns, epsilon, scale } = shape;
    const { step, branch, weight, hidden, next } = buffers;
    const kernel = await AddNormed.compile(gpu);
    const unused = await gpu.placeholder();
    const group = await kernel.bind(
      [
        ...[columns, 4 * rowWords(columns), 4 * squaresWords(columns)],
        ...[{ f32: epsilon }, { f32: scale }, next ? 1 : 0],
      ],
      [
        ...[step, branch, weight, hidden],
        ...[next?.gain ?? weight, next?.scaled ?? unused[0], next?.squares ?? unused[1]],
      ],
    );
    return new AddNormed(kernel, group);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatch(pass, this.#group, rows);
  }
}
