import code from '../../shaders/rms-norm.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';

export interface RmsNormBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [columns padded to 4] f32. */
  readonly weight: GPUBuffer;
  /** Like `input`, another buffer. */
  readonly output: GPUBuffer;
}

export interface RmsNormShape {
  readonly columns: number;
  readonly epsilon: number;
  /** 'rows': row by row. 'logits': output row i is the norm of the row that logits row i names. */
  readonly of: 'rows' | 'logits';
}

/** Root mean square norm; see shaders/rms-norm.wgsl. */
export class RmsNorm {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;

  private constructor(kernel: Kernel, group: GPUBindGroup) {
    this.#kernel = kernel;
    this.#group = group;
  }

  /** Compiled once for all shapes. */
  static compile(gpu: Gpu): Promise<Kernel> {
    return Kernel.compile(gpu, {
      name: 'rms-norm',
      code: [stepCode, code],
      bindings: ['uniform', 'read', 'read', 'read', 'write'],
    });
  }

  static async create(gpu: Gpu, shape: RmsNormShape, buffers: RmsNormBuffers): Promise<RmsNorm> {
    const kernel = await RmsNorm.compile(gpu);
    const gather = shape.of === 'logits';
    const count = gather ? STEP_HEADER.logits : STEP_HEADER.rows;
    const group = await kernel.bind(
      [shape.columns, rowWords(shape.columns), { f32: shape.epsilon }, gather ? 1 : 0, count],
      [buffers.step, buffers.input, buffers.weight, buffers.output],
    );
    return new RmsNorm(kernel, group);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatch(pass, this.#group, rows);
  }
}
