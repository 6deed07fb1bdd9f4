import { testDevice } from '../../testing/device.ts';
import { Gpu } from '../gpu.ts';
import { type LogitsEntry, type PackedStep, packStep, type SequenceEntry, type StepExtras } from '../pack-step.ts';
import { rowWords } from '../row-words.ts';
import { type AnySource, WeightMatrix } from '../weight-matrix.ts';

/** A greedy logits row; tests change what they are about. */
export const GREEDY_ENTRY: LogitsEntry = {
  row: 0,
  slot: 0,
  writesSlot: false,
  sampled: false,
  logprob: false,
  outputPosition: 0,
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0n,
  sampleIndex: 0,
  top: 0,
  topAt: 0,
};

/** Where a kernel test gets its buffers, runs a pass, and reads results. */
export class KernelBench {
  readonly gpu: Gpu;

  private constructor(gpu: Gpu) {
    this.gpu = gpu;
  }

  static async open(bindingLimit?: number, immediates = false): Promise<KernelBench> {
    return new KernelBench(new Gpu(await testDevice(), { bindingLimit, immediates }));
  }

  /** A storage buffer holding `data`. */
  async buffer(data: Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>): Promise<GPUBuffer> {
    const buffer = await this.gpu.storage('test', data.byteLength);
    this.gpu.device.queue.writeBuffer(buffer, 0, data);
    return buffer;
  }

  /** A storage buffer of `count` zeroed numbers. */
  zeros(count: number): Promise<GPUBuffer> {
    return this.gpu.storage('test', count * 4);
  }

  /** Rows of `columns` numbers, padded to whole words as the kernels want them. */
  rows(data: Float32Array, columns: number): Promise<GPUBuffer> {
    return this.buffer(padRows(data, columns));
  }

  /** A step's metadata in a buffer. */
  async step(
    sequences: readonly SequenceEntry[],
    logits: readonly LogitsEntry[] = [],
    splitItems = 1024,
    extras?: StepExtras,
  ): Promise<{ buffer: GPUBuffer; packed: PackedStep }> {
    const packed = packStep(new Uint32Array(1 << 16), sequences, logits, splitItems, extras);
    return { buffer: await this.buffer(packed.words.slice()), packed };
  }

  /** The metadata of `rows` rows of one sequence, for kernels that only want the count. */
  async rowsStep(rows: number): Promise<GPUBuffer> {
    const blockTable = Array.from({ length: Math.ceil(rows / 16) }, (_, i) => i);
    return (await this.step([{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable }])).buffer;
  }

  matrix(columns: number, ...sources: readonly AnySource[]): Promise<WeightMatrix> {
    return WeightMatrix.load(this.gpu, columns, sources);
  }

  /** Runs one compute pass; fails the test on a validation error. */
  async run(encode: (pass: GPUComputePassEncoder) => void): Promise<void> {
    const { device } = this.gpu;
    device.pushErrorScope('validation');
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    encode(pass);
    pass.end();
    device.queue.submit([encoder.finish()]);
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
  }

  async readWords(buffer: GPUBuffer, count = buffer.size / 4): Promise<Uint32Array<ArrayBuffer>> {
    const { device } = this.gpu;
    const staging = device.createBuffer({ size: count * 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, count * 4);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const words = new Uint32Array(staging.getMappedRange().slice(0));
    staging.destroy();
    return words;
  }

  async read(buffer: GPUBuffer, count?: number): Promise<Float32Array<ArrayBuffer>> {
    return new Float32Array((await this.readWords(buffer, count)).buffer);
  }

  close(): void {
    this.gpu.destroy();
  }
}

/** [rows, columns] with each row padded to whole words by zeros. */
function padRows(data: Float32Array, columns: number): Float32Array<ArrayBuffer> {
  const stride = rowWords(columns) * 4;
  const rows = data.length / columns;
  const padded = new Float32Array(rows * stride);
  for (let row = 0; row < rows; row++) padded.set(data.subarray(row * columns, (row + 1) * columns), row * stride);
  return padded;
}

/** Row `row` of padded rows, [columns]. */
export function paddedRow(data: Float32Array<ArrayBuffer>, columns: number, row: number): Float32Array<ArrayBuffer> {
  const stride = rowWords(columns) * 4;
  return data.slice(row * stride, row * stride + columns);
}

/** The bits of floats, for tests of exact equality. */
export function bits(values: Float32Array<ArrayBuffer>): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

/** The largest |a − b| / (1 + |b|); infinite where a NaN is among them, or lengths differ. */
export function largestError(actual: Float32Array, expected: Float32Array): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  let error = 0;
  for (let i = 0; i < actual.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!) / (1 + Math.abs(expected[i]!));
    if (Number.isNaN(difference)) return Number.POSITIVE_INFINITY;
    error = Math.max(error, difference);
  }
  return error;
}
