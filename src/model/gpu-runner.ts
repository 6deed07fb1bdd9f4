import type { Gpu } from '../gpu/gpu.ts';
import { RESULT_WORDS, type Sampler } from '../gpu/sampler.ts';
import type { StepAdvance } from '../gpu/step-advance.ts';
import type { ForwardModel } from './forward-model.ts';
import { ReadbackRing } from './readback-ring.ts';
import type { Runner, RunnerLimits, SampledRow, StepBatch } from './runner.ts';
import { PLAIN_SLOT, type SlotTraits } from './slot-traits.ts';
import { type EncodedStep, encodeStep, MAX_REPEAT } from './step-metadata.ts';

/** Steps that may be in flight at once. */
const STEPS_IN_FLIGHT = 4;

/** The runner can do nothing any more: its device is lost, or it was destroyed. */
export class RunnerLostError extends Error {
  override readonly name = 'RunnerLostError';
}

export interface GpuRunnerParts {
  readonly gpu: Gpu;
  readonly model: ForwardModel;
  readonly sampler: Sampler;
  readonly advance: StepAdvance;
  /** Metadata of the step; holds the largest one. */
  readonly step: GPUBuffer;
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** Splits that attention's scratch holds. */
  readonly splitItems: number;
}

/** Runs a model's steps on a WebGPU device: one writeBuffer, one submit and one readback a step. */
export class GpuRunner implements Runner {
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly #parts: GpuRunnerParts;
  readonly #readback: ReadbackRing;
  readonly #words: Uint32Array<ArrayBuffer>;
  readonly #lost: Promise<RunnerLostError>;
  #slots: readonly SlotTraits[];
  #end: RunnerLostError | undefined;
  #announceEnd!: (error: RunnerLostError) => void;
  /** Rejects the steps that are under way. */
  readonly #inFlight = new Set<(error: RunnerLostError) => void>();

  private constructor(parts: GpuRunnerParts, readback: ReadbackRing) {
    this.#parts = parts;
    this.#readback = readback;
    this.#words = new Uint32Array(parts.step.size / 4);
    this.limits = parts.limits;
    this.#slots = new Array(parts.limits.maxSequences).fill(PLAIN_SLOT);
    this.weightBytes = parts.weightBytes;
    this.kvBytes = parts.kvBytes;
    this.#lost = new Promise((resolve) => {
      this.#announceEnd = resolve;
    });
    void parts.gpu.device.lost.then((info) => {
      this.#finish(
        new RunnerLostError(`the GPU device was lost (${info.reason}): ${info.message || 'no reason given'}`),
      );
    });
  }

  static async create(parts: GpuRunnerParts): Promise<GpuRunner> {
    const { maxLogitsRows, maxSequences, maxTop } = parts.limits;
    const bytes = Math.max(maxSequences * RESULT_WORDS * 4 * MAX_REPEAT, maxLogitsRows * RESULT_WORDS * 4 + maxTop * 8);
    return new GpuRunner(parts, await ReadbackRing.create(parts.gpu, STEPS_IN_FLIGHT, bytes));
  }

  get allocatedBytes(): number {
    return this.#parts.gpu.buffers.liveBytes;
  }

  /** GPU buffers alive. */
  get allocatedBuffers(): number {
    return this.#parts.gpu.buffers.liveBuffers;
  }

  /** See Runner. Rejects with StepError where the batch breaks a limit, with RunnerLostError once the device is lost. */
  async step(batch: StepBatch): Promise<SampledRow[]> {
    if (this.#end) throw this.#end;
    const { gpu } = this.#parts;
    const step = encodeStep(this.#words, batch, this.#parts, this.#slots);
    const staging = this.#readback.take();
    gpu.device.pushErrorScope('validation');
    const encoder = gpu.device.createCommandEncoder({ label: 'step' });
    const { sampler, advance } = this.#parts;
    gpu.device.queue.writeBuffer(this.#parts.step, 0, step.words);
    const resultBytes = step.logits.length * RESULT_WORDS * 4;
    for (let i = 0; i < step.repeat; i++) {
      const pass = encoder.beginComputePass({ label: 'step' });
      if (i > 0) advance.encode(pass, step.rows);
      this.#encode(encoder, pass, step, i);
      if (resultBytes > 0) encoder.copyBufferToBuffer(sampler.results, 0, staging, i * resultBytes, resultBytes);
    }
    const bytes = step.repeat * resultBytes + step.top * 8;
    if (step.top > 0) encoder.copyBufferToBuffer(sampler.top, 0, staging, resultBytes, step.top * 8);
    gpu.device.queue.submit([encoder.finish()]);
    const work = this.#collect(step, staging, bytes, gpu.device.popErrorScope());
    return new Promise((resolve, reject) => {
      // Not a race with #lost: a promise keeps what waits on it, and every step would stay in memory.
      this.#inFlight.add(reject);
      void work.then(resolve, reject).finally(() => this.#inFlight.delete(reject));
    });
  }

  /** Runs `batch` and gives the raw logits of its logits rows, [vocabulary] each. For tests: it copies them all out. */
  async logits(batch: StepBatch): Promise<Float32Array<ArrayBuffer>[]> {
    if (this.#end) throw this.#end;
    const { gpu, model } = this.#parts;
    const step = encodeStep(this.#words, batch, this.#parts, this.#slots);
    const rowBytes = this.limits.vocabSize * 4;
    const buffer = await gpu.buffers.allocate(
      'captured logits',
      step.logits.length * rowBytes,
      GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    );
    try {
      const encoder = gpu.device.createCommandEncoder({ label: 'step with logits' });
      gpu.device.queue.writeBuffer(this.#parts.step, 0, step.words);
      const pass = encoder.beginComputePass({ label: 'step with logits' });
      this.#encode(encoder, pass, step, 0, (tile, rows) => {
        encoder.copyBufferToBuffer(model.logits, 0, buffer, tile * model.tileRows * rowBytes, rows * rowBytes);
      });
      gpu.device.queue.submit([encoder.finish()]);
      await buffer.mapAsync(GPUMapMode.READ);
      const values = new Float32Array(buffer.getMappedRange().slice(0));
      const { vocabSize } = this.limits;
      return step.logits.map((_, i) => values.slice(i * vocabSize, (i + 1) * vocabSize));
    } finally {
      gpu.buffers.free(buffer);
    }
  }

  destroy(): void {
    this.#finish(new RunnerLostError('the runner was destroyed'));
    this.#parts.gpu.destroy();
  }

  #finish(error: RunnerLostError): void {
    this.#end ??= error;
    this.#announceEnd(this.#end);
    for (const reject of this.#inFlight) reject(this.#end);
    this.#inFlight.clear();
  }

  /** Encodes the whole forward step into `pass` and ends it; `captured` may copy each tile's logits away. */
  #encode(
    encoder: GPUCommandEncoder,
    first: GPUComputePassEncoder,
    step: EncodedStep,
    repetition: number,
    captured?: (tile: number, rows: number) => void,
  ): void {
    const { model, sampler } = this.#parts;
    let pass = first;
    if (repetition === 0) model.copyBlocks(pass, step.copies);
    model.embed(pass, step.rows);
    model.layers(pass, step.rows, step.work, 0, model.layerCount);
    model.finish(pass, step.logits.length);
    for (let tile = 0; tile * model.tileRows < step.logits.length; tile++) {
      const entries = step.logits.slice(tile * model.tileRows, (tile + 1) * model.tileRows);
      model.head(pass, tile, entries.length);
      if (captured) {
        pass.end();
        captured(tile, entries.length);
        pass = encoder.beginComputePass({ label: 'step' });
      }
      sampler.encode(pass, tile, entries);
    }
    pass.end();
  }

  async #collect(
    step: EncodedStep,
    staging: GPUBuffer,
    bytes: number,
    validation: Promise<GPUError | null>,
  ): Promise<SampledRow[]> {
    const { device } = this.#parts.gpu;
    try {
      if (bytes === 0) await device.queue.onSubmittedWorkDone();
      else await staging.mapAsync(GPUMapMode.READ, 0, bytes);
    } catch (error) {
      this.#readback.give(staging);
      throw await this.#failure(error, validation);
    }
    try {
      const error = await validation;
      if (error) throw new Error(`the step is invalid: ${error.message}`);
      return bytes === 0 ? [] : readRows(step, new Uint32Array(staging.getMappedRange(0, bytes)));
    } finally {
      if (staging.mapState === 'mapped') staging.unmap();
      this.#readback.give(staging);
    }
  }

  /** Why a readback failed. A lost device may say so only after the readback did. */
  async #failure(cause: unknown, validation: Promise<GPUError | null>): Promise<Error> {
    const invalid = await validation.catch(() => null);
    if (invalid) return new Error(`the step is invalid: ${invalid.message}`);
    const late = new Promise<undefined>((resolve) => {
      setTimeout(() => resolve(undefined), 1000);
    });
    const end = this.#end ?? (await Promise.race([this.#lost, late]));
    return end ?? new Error(`the step can't be read back: ${(cause as Error).message}`, { cause });
  }
}

function readRows(step: EncodedStep, words: Uint32Array<ArrayBuffer>): SampledRow[] {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  const topWords = step.logits.length * RESULT_WORDS;
  const all = Array.from({ length: step.repeat }, () => step.logits).flat();
  return all.map((entry, i) => {
    const at = i * RESULT_WORDS;
    const row: SampledRow = { id: words[at]!, nonFinite: words[at + 1] !== 0 };
    const logprob = entry.logprob ? { logprob: floats[at + 2]! } : {};
    if (entry.top === 0) return { ...row, ...logprob };
    const ids = new Uint32Array(entry.top);
    const logprobs = new Float32Array(entry.top);
    for (let j = 0; j < entry.top; j++) {
      ids[j] = words[topWords + (entry.topAt + j) * 2]!;
      logprobs[j] = floats[topWords + (entry.topAt + j) * 2 + 1]!;
    }
    return { ...row, ...logprob, top: { ids, logprobs } };
  });
}
