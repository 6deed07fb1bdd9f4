import advanceCode from '../../shaders/advance-step.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { TOKEN_OF_SLOT } from './step-layout.ts';

/** Moves a step of decode rows on by one token, on the GPU; see shaders/advance-step.wgsl. */
export class StepAdvance {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;

  private constructor(kernel: Kernel, group: GPUBindGroup) {
    this.#kernel = kernel;
    this.#group = group;
  }

  static async create(gpu: Gpu, step: GPUBuffer): Promise<StepAdvance> {
    const kernel = await Kernel.compile(gpu, {
      name: 'advance-step',
      code: [stepCode, advanceCode],
      bindings: ['uniform', 'write'],
    });
    return new StepAdvance(kernel, await kernel.bind([TOKEN_OF_SLOT], [step]));
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, rows);
  }
}
