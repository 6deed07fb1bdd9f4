/** A dispatch that was encoded: what a pass needs to run it again. */
export interface RecordedDispatch {
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly x: number;
  readonly y: number;
}

/** Takes the place of a compute pass, keeps what is encoded into it, and runs nothing. */
export class DispatchRecorder {
  readonly dispatches: RecordedDispatch[] = [];
  #pipeline: GPUComputePipeline | undefined;
  #group: GPUBindGroup | undefined;

  /** For kernels' encode methods, which call no other method of a pass than these three. */
  get pass(): GPUComputePassEncoder {
    return this as unknown as GPUComputePassEncoder;
  }

  setPipeline(pipeline: GPUComputePipeline): void {
    this.#pipeline = pipeline;
  }

  setBindGroup(index: number, group: GPUBindGroup): void {
    if (index !== 0) throw new RangeError(`bind group ${index}: kernels have one`);
    this.#group = group;
  }

  dispatchWorkgroups(x: number, y = 1): void {
    if (!this.#pipeline || !this.#group) throw new Error('a dispatch without pipeline or bind group');
    this.dispatches.push({ pipeline: this.#pipeline, group: this.#group, x, y });
  }
}

/** Encodes `count` of `dispatches`, in order and again from the first. */
export function replay(pass: GPUComputePassEncoder, dispatches: readonly RecordedDispatch[], count: number): void {
  for (let i = 0; i < count; i++) {
    const { pipeline, group, x, y } = dispatches[i % dispatches.length]!;
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(x, y);
  }
}
