import type { Gpu } from './gpu.ts';

/** A span shorter than this is timed by nothing but noise, in milliseconds. */
const LEAST_MS = { timestamps: 1, wall: 20 } as const;
/** A timestamp may be off by a whole step of the clock: a span of so many is good to a few percent. */
const LEAST_QUANTA = 50;
/** From here on timestamps count as quantised, in nanoseconds: browsers coarsen them, hardware counts finer. */
const QUANTISED_NS = 1_000;

/** What spans are measured with. */
export interface ClockFacts {
  /** wall: around a submit, as the host sees it. */
  readonly source: 'timestamps' | 'wall';
  /** The largest step that all timestamps seen are multiples of; undefined: none was seen. */
  readonly quantumNs: number | undefined;
}

interface Queries {
  readonly set: GPUQuerySet;
  readonly resolved: GPUBuffer;
  readonly staging: GPUBuffer;
}

/** Times passes of one device. Its own queries and buffers are freed with `destroy`. */
export class GpuClock {
  readonly #device: GPUDevice;
  readonly #queries: Queries | undefined;
  readonly #gpu: Gpu;
  /** Greatest common divisor of all timestamps. */
  #quantum = 0n;
  /** Timestamps that can't be: from then on the host's clock is taken. */
  #distrusted = false;

  private constructor(gpu: Gpu, queries: Queries | undefined) {
    this.#gpu = gpu;
    this.#device = gpu.device;
    this.#queries = queries;
  }

  /** Takes timestamps where the device has them, unless `source` says otherwise. Rejects with AllocationError. */
  static async create(gpu: Gpu, source: 'timestamps' | 'wall' = 'timestamps'): Promise<GpuClock> {
    if (source === 'wall' || !gpu.device.features.has('timestamp-query')) return new GpuClock(gpu, undefined);
    const { QUERY_RESOLVE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const [resolved, staging] = await Promise.all([
      gpu.buffers.allocate('timestamps', 16, QUERY_RESOLVE | COPY_SRC),
      gpu.buffers.allocate('timestamps read', 16, MAP_READ | COPY_DST),
    ]);
    const set = gpu.device.createQuerySet({ label: 'timestamps', type: 'timestamp', count: 2 });
    return new GpuClock(gpu, { set, resolved, staging });
  }

  get facts(): ClockFacts {
    const quantumNs = this.#quantum === 0n ? undefined : Number(this.#quantum);
    return { source: this.#source, quantumNs };
  }

  /** A span should be at least so long. */
  get leastMs(): number {
    const { source, quantumNs = 0 } = this.facts;
    const quantised = quantumNs >= QUANTISED_NS ? (LEAST_QUANTA * quantumNs) / 1e6 : 0;
    // Few timestamps may share a larger step than the clock's.
    return Math.max(LEAST_MS[source], Math.min(quantised, LEAST_MS.wall));
  }

  /** Milliseconds of a pass of its own, in a submit of its own, into which `encode` encodes. */
  async spanMs(encode: (pass: GPUComputePassEncoder) => void): Promise<number> {
    if (this.#queries && !this.#distrusted) {
      const ms = await this.#stampedMs(encode, this.#queries);
      if (ms !== undefined) return ms;
      this.#distrusted = true;
    }
    return this.#wallMs(encode);
  }

  destroy(): void {
    if (!this.#queries) return;
    const { set, resolved, staging } = this.#queries;
    set.destroy();
    this.#gpu.buffers.free(resolved);
    this.#gpu.buffers.free(staging);
  }

  get #source(): ClockFacts['source'] {
    return this.#queries && !this.#distrusted ? 'timestamps' : 'wall';
  }

  async #stampedMs(
    encode: (pass: GPUComputePassEncoder) => void,
    { set, resolved, staging }: Queries,
  ): Promise<number | undefined> {
    const encoder = this.#device.createCommandEncoder({ label: 'profile' });
    const timestampWrites = { querySet: set, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 };
    const pass = encoder.beginComputePass({ label: 'profile', timestampWrites });
    encode(pass);
    pass.end();
    encoder.resolveQuerySet(set, 0, 2, resolved, 0);
    encoder.copyBufferToBuffer(resolved, 0, staging, 0, 16);
    this.#device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const [begin, end] = new BigUint64Array(staging.getMappedRange().slice(0));
    staging.unmap();
    if (begin === 0n || end! < begin!) return undefined;
    for (const stamp of [begin!, end!]) this.#quantum = greatestDivisor(this.#quantum, stamp);
    return Number(end! - begin!) / 1e6;
  }

  async #wallMs(encode: (pass: GPUComputePassEncoder) => void): Promise<number> {
    const encoder = this.#device.createCommandEncoder({ label: 'profile' });
    const pass = encoder.beginComputePass({ label: 'profile' });
    encode(pass);
    pass.end();
    const commands = encoder.finish();
    const startedAt = performance.now();
    this.#device.queue.submit([commands]);
    await this.#device.queue.onSubmittedWorkDone();
    return performance.now() - startedAt;
  }
}

/** In words, for a table's heading. */
export function clockInWords({ source, quantumNs }: ClockFacts): string {
  if (source === 'wall') return "the host's clock, around submits";
  if (quantumNs === undefined || quantumNs < QUANTISED_NS) return 'timestamps';
  return `timestamps in steps of ${(quantumNs / 1e3).toFixed(1)} µs`;
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  while (b > 0n) [a, b] = [b, a % b];
  return a;
}
