import type { Gpu } from '../gpu/gpu.ts';
import { readStaging, submitProblem } from './read-staging.ts';
import { ReadbackRing } from './readback-ring.ts';
import { RunnerLostError } from './runner-lost-error.ts';

/** Steps that may be in flight at once. */
const STEPS_IN_FLIGHT = 4;

/** Where vectors lie on the GPU, one row each, and how they are to be read. */
export interface VectorRows {
  /** [rows, stride] f32. */
  readonly source: GPUBuffer;
  readonly stride: number;
  /** Numbers of a vector: the first ones of its row. */
  readonly dimension: number;
  /** Each is divided by its length. */
  readonly normalised: boolean;
  /** Rows of one step at most. */
  readonly maxRows: number;
}

/** Submits steps that leave vectors in rows of a buffer, and reads these back. */
export class VectorSteps {
  readonly #gpu: Gpu;
  readonly #rows: VectorRows;
  readonly #ring: ReadbackRing;
  #end: RunnerLostError | undefined;
  /** Rejects the steps that are under way. */
  readonly #inFlight = new Set<(error: RunnerLostError) => void>();

  private constructor(gpu: Gpu, rows: VectorRows, ring: ReadbackRing) {
    this.#gpu = gpu;
    this.#rows = rows;
    this.#ring = ring;
    void gpu.device.lost.then(({ reason, message }) => {
      this.end(new RunnerLostError(`the GPU device was lost (${reason}): ${message || 'no reason given'}`));
    });
  }

  static async create(gpu: Gpu, rows: VectorRows): Promise<VectorSteps> {
    return new VectorSteps(gpu, rows, await ReadbackRing.create(gpu, STEPS_IN_FLIGHT, rows.maxRows * rows.stride * 4));
  }

  /**
   * Calls `submit`, which writes and submits what makes `count` vectors, and gives them, [dimension] each. Rejects with
   * what `submit` throws, and with RunnerLostError once the device is lost.
   */
  async run(count: number, submit: () => void): Promise<Float32Array<ArrayBuffer>[]> {
    if (this.#end) throw this.#end;
    const { device } = this.#gpu;
    const { source, stride } = this.#rows;
    const staging = this.#ring.take();
    const bytes = count * stride * 4;
    device.pushErrorScope('validation');
    try {
      submit();
    } catch (error) {
      void submitProblem(device);
      this.#ring.give(staging);
      throw error;
    }
    const encoder = device.createCommandEncoder({ label: 'vectors' });
    encoder.copyBufferToBuffer(source, 0, staging, 0, bytes);
    device.queue.submit([encoder.finish()]);
    const validation = submitProblem(device);
    // Not a race: a promise keeps what waits on it, and every step would stay in memory.
    return new Promise((settle, fail) => {
      this.#inFlight.add(fail);
      void this.#read(staging, count, bytes, validation)
        .then(settle, fail)
        .finally(() => this.#inFlight.delete(fail));
    });
  }

  /** Rejects what is under way, and all that comes. */
  end(error: RunnerLostError): void {
    this.#end ??= error;
    for (const reject of this.#inFlight) reject(this.#end);
    this.#inFlight.clear();
  }

  async #read(
    staging: GPUBuffer,
    count: number,
    bytes: number,
    validation: Promise<GPUError | null>,
  ): Promise<Float32Array<ArrayBuffer>[]> {
    const { stride, dimension, normalised } = this.#rows;
    const { device } = this.#gpu;
    try {
      return await readStaging({ device, staging, bytes, validation, end: () => this.#end }, (results) => {
        const values = new Float32Array(results);
        return Array.from({ length: count }, (_, row) => {
          const vector = values.slice(row * stride, row * stride + dimension);
          return normalised ? normalise(vector) : vector;
        });
      });
    } finally {
      this.#ring.give(staging);
    }
  }
}

/** x / max(|x|, 1e-12), in float64 until the end. */
export function normalise(vector: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  let squares = 0;
  for (const x of vector) squares += x * x;
  const length = Math.max(Math.sqrt(squares), 1e-12);
  return vector.map((x) => x / length);
}
