import code from '../../shaders/layer-norm.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowThreads } from './row-threads.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';

export interface LayerNormBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [columns padded to 4] f32. */
  readonly weight: GPUBuffer;
  readonly bias: GPUBuffer;
  /** Like `input`: added to it first. Not where rows are gathered. */
  readonly residual?: GPUBuffer | undefined;
  /** Like `input`, another buffer. */
  readonly output: GPUBuffer;
}

export interface LayerNormShape {
  readonly columns: number;
  readonly epsilon: number;
  /** 'rows': row by row. 'logits': output row i is the norm of the row that logits row i names. */
  readonly of: 'rows' | 'logits';
}

/** Layer normalisation (Ba et al., 2016); see shaders/layer-norm.wgsl. */
export class LayerNorm {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;

  private constructor(kernel: Kernel, group: GPUBindGroup) {
    this.#kernel = kernel;
    this.#group = group;
  }

  /** Compiled once for all shapes. */
  static compile(gpu: Gpu): Promise<Kernel> {
    return Kernel.compile(gpu, {
      name: 'layer-norm',
      code: [stepCode, code],
      constants: { THREADS: rowThreads(gpu) },
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'],
    });
  }

  static async create(gpu: Gpu, shape: LayerNormShape, buffers: LayerNormBuffers): Promise<LayerNorm> {
    const { columns, epsilon } = shape;
    const { step, input, weight, bias, residual, output } = buffers;
    const gather = shape.of === 'logits';
    if (gather && residual) throw new RangeError('gathered rows have no residual');
    const kernel = await LayerNorm.compile(gpu);
    const count = gather ? STEP_HEADER.logits : STEP_HEADER.rows;
    const group = await kernel.bind(
      [columns, 4 * rowWords(columns), { f32: epsilon }, gather ? 1 : 0, count, residual ? 1 : 0],
      [step, input, weight, bias, residual ?? input, output],
    );
    return new LayerNorm(kernel, group);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatch(pass, this.#group, rows);
  }
}
