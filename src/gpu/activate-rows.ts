import code from '../../shaders/activate-rows.wgsl?raw';
import activationCode from '../../shaders/activation.wgsl?raw';
import { ACTIVATIONS, type Activation } from './activation.ts';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';

export interface ActivateRowsShape {
  readonly columns: number;
  readonly activation: Activation;
  /** The input has the gate's columns, then those that its activation multiplies. */
  readonly gated: boolean;
}

export interface ActivateRowsBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32; gated: [rows, 2 columns padded to 4], gate, then up. */
  readonly input: GPUBuffer;
  /** A row of the input; added to all. */
  readonly bias?: GPUBuffer | undefined;
  /** [rows, columns padded to 4] f32. */
  readonly output: GPUBuffer;
}

/**
 * The activation of a feed-forward network; gated (Shazeer, "GLU variants improve Transformer", 2020) or not. See
 * shaders/activate-rows.wgsl.
 */
export class ActivateRows {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #columns: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, columns: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#columns = columns;
  }

  /** Compiled once for all shapes. */
  static compile(gpu: Gpu): Promise<Kernel> {
    return Kernel.compile(gpu, {
      name: 'activate-rows',
      code: [activationCode, code],
      bindings: ['uniform', 'read', 'read', 'read', 'write'],
    });
  }

  static async create(
    gpu: Gpu,
    { columns, activation, gated }: ActivateRowsShape,
    { step, input, bias, output }: ActivateRowsBuffers,
  ): Promise<ActivateRows> {
    const kernel = await ActivateRows.compile(gpu);
    const group = await kernel.bind(
      [
        ...[columns, 4 * rowWords(gated ? 2 * columns : columns), 4 * rowWords(columns)],
        ...[ACTIVATIONS.indexOf(activation), gated ? 1 : 0, bias ? 1 : 0],
      ],
      [step, input, bias ?? step, output],
    );
    return new ActivateRows(kernel, group, columns);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, rows * this.#columns);
  }
}
