import keyCode from '../../shaders/logit-key.wgsl?raw';
import code from '../../shaders/route-rows.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';

export interface RouteShape {
  readonly experts: number;
  readonly chosen: number;
  /** Shares of the chosen ones sum to 1. */
  readonly normalised: boolean;
  /** Numbers from one row of the logits to the next. */
  readonly stride: number;
}

export interface RouteBuffers {
  readonly step: GPUBuffer;
  /** [rows, stride] f32. */
  readonly logits: GPUBuffer;
  /** [rows, chosen] u32: SegmentEntries.list. */
  readonly list: GPUBuffer;
  /** [rows, chosen] f32. */
  readonly shares: GPUBuffer;
}

/**
 * The router of a mixture of experts (Shazeer et al., "Outrageously Large Neural Networks", 2017; softmax before the choice,
 * as in Mixtral and Qwen3 MoE): see shaders/route-rows.wgsl. Equal logits go by index, as torch.topk has them on a CPU.
 */
export class RouteRows {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;

  private constructor(kernel: Kernel, group: GPUBindGroup) {
    this.#kernel = kernel;
    this.#group = group;
  }

  /** Throws RangeError where more are chosen than there are. */
  static async create(gpu: Gpu, { experts, chosen, normalised, stride }: RouteShape, buffers: RouteBuffers) {
    if (chosen < 1 || chosen > experts) throw new RangeError(`${chosen} of ${experts} experts chosen`);
    const kernel = await Kernel.compile(gpu, {
      name: 'route-rows',
      code: [keyCode, code],
      constants: { EXPERTS: experts, CHOSEN: chosen },
      bindings: ['uniform', 'read', 'read', 'write', 'write'],
    });
    const { step, logits, list, shares } = buffers;
    const group = await kernel.bind([stride, normalised ? 1 : 0], [step, logits, list, shares]);
    return new RouteRows(kernel, group);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatch(pass, this.#group, rows);
  }
}
