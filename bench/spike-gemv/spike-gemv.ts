import code from './spike-gemv.wgsl?raw';

export const SPIKE_ROWS = 8_192;
export const SPIKE_COLUMNS = 2_048;
const BLOCKS = SPIKE_COLUMNS / 32;

/** The frozen spike with made-up weights, ready to run; see spike-gemv.wgsl. */
export class SpikeGemv {
  readonly #device: GPUDevice;
  readonly #pipeline: GPUComputePipeline;
  readonly #group: GPUBindGroup;
  readonly #buffers: readonly GPUBuffer[];

  private constructor(
    device: GPUDevice,
    pipeline: GPUComputePipeline,
    group: GPUBindGroup,
    buffers: readonly GPUBuffer[],
  ) {
    this.#device = device;
    this.#pipeline = pipeline;
    this.#group = group;
    this.#buffers = buffers;
  }

  static async create(device: GPUDevice): Promise<SpikeGemv> {
    const weights = Uint32Array.from({ length: SPIKE_ROWS * BLOCKS * 4 }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
    const scales = Float32Array.from({ length: SPIKE_ROWS * BLOCKS * 2 }, (_, i) => (i % 2 === 0 ? 1 : -7.5) / 64);
    const x = Float32Array.from({ length: SPIKE_COLUMNS }, (_, k) => xAt(k) / 16 ** ((k >> 2) & 7));
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    const filled = [weights, scales, x].map((data) => {
      const buffer = device.createBuffer({ label: 'spike', size: data.byteLength, usage });
      device.queue.writeBuffer(buffer, 0, data);
      return buffer;
    });
    const buffers = [...filled, device.createBuffer({ label: 'spike output', size: SPIKE_ROWS * 4, usage })];
    const pipeline = await device.createComputePipelineAsync({
      label: 'spike',
      layout: 'auto',
      compute: { module: device.createShaderModule({ label: 'spike', code }), entryPoint: 'main' },
    });
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    return new SpikeGemv(device, pipeline, group, buffers);
  }

  encode(pass: GPUComputePassEncoder): void {
    pass.setPipeline(this.#pipeline);
    pass.setBindGroup(0, this.#group);
    pass.dispatchWorkgroups(SPIKE_ROWS / 8 / 64);
  }

  /** Throws where the first rows are not what they should be: a wrong kernel's time says nothing. */
  async check(): Promise<void> {
    const rows = 16;
    const staging = this.#device.createBuffer({
      size: rows * 4,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    const encoder = this.#device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    this.encode(pass);
    pass.end();
    encoder.copyBufferToBuffer(this.#buffers[3]!, 0, staging, 0, rows * 4);
    this.#device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const actual = new Float32Array(staging.getMappedRange().slice(0));
    staging.destroy();
    actual.forEach((value, row) => {
      let expected = 0;
      for (let k = 0; k < SPIKE_COLUMNS; k++) {
        const word = Math.imul(((k >> 5) * SPIKE_ROWS + row) * 4 + (k & 3) + 1, 0x9e3779b1);
        expected += ((((word >>> (4 * ((k >> 2) & 7))) & 15) - 7.5) / 64) * xAt(k);
      }
      if (!(Math.abs(value - expected) < 1e-3)) throw new Error(`spike: row ${row} is ${value}, not ${expected}`);
    });
  }

  destroy(): void {
    for (const buffer of this.#buffers) buffer.destroy();
  }
}

/** What x is in column k before it is divided. */
function xAt(k: number): number {
  return ((k * 37) % 101) / 101 - 0.5;
}
