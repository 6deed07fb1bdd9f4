import type { Gpu } from '../gpu/gpu.ts';

/** Staging buffers for results, so that a step can be submitted while others are read back. */
export class ReadbackRing {
  readonly #free: GPUBuffer[];
  readonly #count: number;

  private constructor(buffers: readonly GPUBuffer[]) {
    this.#free = [...buffers];
    this.#count = buffers.length;
  }

  static async create(gpu: Gpu, count: number, bytes: number): Promise<ReadbackRing> {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const buffers = Array.from({ length: count }, (_, i) => gpu.buffers.allocate(`readback ${i}`, bytes, usage));
    return new ReadbackRing(await Promise.all(buffers));
  }

  /** Throws when all are in use: the caller has too many steps in flight. */
  take(): GPUBuffer {
    const buffer = this.#free.shift();
    if (!buffer) throw new Error(`${this.#count} steps are in flight already`);
    return buffer;
  }

  give(buffer: GPUBuffer): void {
    this.#free.push(buffer);
  }
}
