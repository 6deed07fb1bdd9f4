import { setImmediates } from './kernel.ts';

/** A dispatch that was encoded: what a pass needs to run it again. */
export interface RecordedDispatch {
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly immediates: Uint32Array<ArrayBuffer> | undefined;
  readonly x: number;
  readonly y: number;
}

/** Takes the place of a compute pass, keeps what is encoded into it, and runs nothing. */
export class DispatchRecorder {
  readonly dispatches: RecordedDispatch[] = [];
  #pipeline: GPUComputePipeline | undefined;
  #group: GPUBindGroup | undefined;
  #immediates: Uint32Array<ArrayBuffer> | undefined;

  /** For kernels' encode methods, which call no other method of a pass than these. */
  get pass(): GPUComputePassEncoder {
    return this as unknown as GPUComputePassEncoder;
  }

  setPipeline(pipeline: GPUComputePipeline): void {
    this.#pipeline = pipeline;
    this.#immediates = undefined;
  }

  setBindGroup(index: number, group: GPUBindGroup): void {
    if (index !== 0) throw new RangeError(`bind group ${index}: kernels have one`);
    this.#group = group;
  }

  setImmediates(_offset: number, data: Uint32Array<ArrayBuffer>): void {
    this.#immediates = data;
  }

  dispatchWorkgroups(x: number, y = 1): void {
    if (!this.#pipeline || !this.#group) throw new Error('a dispatch without pipeline or bind group');
    this.dispatches.push({ pipeline: this.#pipeline, group: this.#group, immediates: this.#immediates, x, y });
  }
}

/** Encodes `count` of `dispatches`, in order and again from the first. */
export function replay(pass: GPUComputePassEncoder, dispatches: readonly RecordedDispatch[], count: number): void {
  for (let i = 0; i < count; i++) {
    const { pipeline, group, immediates, x, y } = dispatches[i % dispatches.length]!;
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    if (immediates) setImmediates(pass, immediates);
    pass.dispatchWorkgroups(x, y);
  }
}
