import type { DeviceWatch } from './device-watch.ts';
import { Gpu } from './gpu.ts';
import { type LogitsEntry, type PackedStep, packStep, type SequenceEntry } from './pack-step.ts';
import { rowWords } from './row-words.ts';

/** Words of a trial's step. */
const STEP_WORDS = 1 << 12;

/** A kernel does not what it should; the message says what it did. */
export class TrialFailure extends Error {
  override readonly name = 'TrialFailure';
}

/** Buffers and passes for trying a kernel on a device, small shapes only. All it allocates is freed by `close`. */
export class KernelTrial {
  readonly gpu: Gpu;
  readonly #watch: DeviceWatch;
  readonly #boundMs: number;

  /** `boundMs`: how long anything may take. */
  constructor(watch: DeviceWatch, boundMs: number) {
    this.gpu = new Gpu(watch.device);
    this.#watch = watch;
    this.#boundMs = boundMs;
  }

  /** A storage buffer holding `data`. */
  async buffer(data: Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>): Promise<GPUBuffer> {
    const buffer = await this.zeros(data.length);
    this.gpu.device.queue.writeBuffer(buffer, 0, data);
    return buffer;
  }

  /** A storage buffer of `count` zeroed numbers. */
  zeros(count: number): Promise<GPUBuffer> {
    return this.within(this.gpu.storage('trial', count * 4));
  }

  /** Rows of `columns` numbers, padded to whole words as the kernels want them. */
  rows(data: Float32Array, columns: number): Promise<GPUBuffer> {
    return this.buffer(paddedRows(data, columns));
  }

  /** A step's metadata. */
  async step(
    sequences: readonly SequenceEntry[],
    logits: readonly LogitsEntry[] = [],
  ): Promise<{ readonly buffer: GPUBuffer; readonly packed: PackedStep }> {
    const packed = packStep(new Uint32Array(STEP_WORDS), sequences, logits, STEP_WORDS);
    return { buffer: await this.buffer(packed.words.slice()), packed };
  }

  /** The metadata of `rows` rows of one sequence. */
  async rowsStep(rows: number): Promise<GPUBuffer> {
    const blockTable = Array.from({ length: Math.ceil(rows / 16) }, (_, i) => i);
    return (await this.step([{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable }])).buffer;
  }

  /**
   * Runs one pass and gives what `buffers` hold then. Rejects with TrialFailure where the device refuses it, with
   * TrialLost where the device is lost or doesn't come to the pass's end in time.
   */
  async run(
    encode: (pass: GPUComputePassEncoder) => void,
    buffers: readonly GPUBuffer[],
  ): Promise<Float32Array<ArrayBuffer>[]> {
    const { device } = this.gpu;
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const staging = await this.within(
      Promise.all(buffers.map(({ size }) => this.gpu.buffers.allocate('trial results', size, usage))),
    );
    for (const filter of SCOPES) device.pushErrorScope(filter);
    const encoder = device.createCommandEncoder({ label: 'trial' });
    const pass = encoder.beginComputePass({ label: 'trial' });
    encode(pass);
    pass.end();
    buffers.forEach((buffer, i) => {
      encoder.copyBufferToBuffer(buffer, 0, staging[i]!, 0, buffer.size);
    });
    device.queue.submit([encoder.finish()]);
    const refusals = Promise.all(SCOPES.map(() => device.popErrorScope()));
    const read = Promise.all(staging.map((buffer) => buffer.mapAsync(GPUMapMode.READ)));
    read.catch(() => {});
    const refusal = (await this.within(refusals)).find((error) => error !== null);
    if (refusal) throw new TrialFailure(refusal.message);
    await this.within(read);
    return staging.map((buffer) => {
      const values = new Float32Array(buffer.getMappedRange().slice(0));
      this.gpu.buffers.free(buffer);
      return values;
    });
  }

  within<T>(work: Promise<T>): Promise<T> {
    return this.#watch.within(work, this.#boundMs);
  }

  close(): void {
    this.gpu.destroy();
  }
}

const SCOPES = ['validation', 'out-of-memory', 'internal'] as const satisfies readonly GPUErrorFilter[];

/** [rows, columns] with each row padded to whole words by zeros. */
export function paddedRows(data: Float32Array, columns: number): Float32Array<ArrayBuffer> {
  const stride = rowWords(columns) * 4;
  const rows = data.length / columns;
  const padded = new Float32Array(rows * stride);
  for (let row = 0; row < rows; row++) padded.set(data.subarray(row * columns, (row + 1) * columns), row * stride);
  return padded;
}

/**
 * Throws TrialFailure unless each of `actual` is within `tolerance` of what is expected, measured by that number's size
 * and the root mean square of all. NaN is within nothing.
 */
export function expectNear(what: string, actual: Float32Array, expected: Float32Array, tolerance: number): void {
  let squares = 0;
  for (const value of expected) squares += value * value;
  const size = Math.sqrt(squares / Math.max(1, expected.length));
  for (let i = 0; i < expected.length; i++) {
    const [is, should] = [actual[i]!, expected[i]!];
    if (!(Math.abs(is - should) <= tolerance * (size + Math.abs(should)))) {
      throw new TrialFailure(`${what} ${i} is ${is}, should be ${should}`);
    }
  }
}
