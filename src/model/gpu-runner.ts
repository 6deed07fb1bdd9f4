import { DispatchRecorder } from '../gpu/dispatch-recorder.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { ShaderError } from '../gpu/pipeline-cache.ts';
import type { SearchedRow } from '../gpu/sampler.ts';
import type { StepAdvance } from '../gpu/step-advance.ts';
import { giveEmbeddings } from './give-embeddings.ts';
import { checkMasks } from './masks.ts';
import type { AdapterFiles } from './read-adapter.ts';
import { readStaging, submitProblem } from './read-staging.ts';
import { maxStagingWords, readStep, stagingLayout } from './read-step.ts';
import { ReadbackRing } from './readback-ring.ts';
import type { AdapterTraits, Runner, RunnerLimits, SampledRow, StepBatch } from './runner.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import type { SlotBuffers } from './slot-buffers.ts';
import { PLAIN_SLOT, type SlotTraits } from './slot-traits.ts';
import { type DrawParts, StepDraws } from './step-draws.ts';
import { StepError } from './step-error.ts';
import { type EncodedStep, encodeStep } from './step-metadata.ts';
import type { ProfileOptions, StepProfile } from './step-profile.ts';
import { profileStep } from './step-profiler.ts';

/** Steps that may be in flight at once. */
const STEPS_IN_FLIGHT = 4;

export interface GpuRunnerParts extends DrawParts {
  readonly gpu: Gpu;
  readonly slots: SlotBuffers;
  readonly advance: StepAdvance;
  /** Metadata of the step; holds the largest one. */
  readonly step: GPUBuffer;
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** Splits that attention's scratch holds; none before there is a kernel for them. */
  readonly splitItems: () => number;
}

/** A step that was submitted: what it is and where its results go. */
interface SubmittedStep {
  readonly step: EncodedStep;
  readonly staging: GPUBuffer;
  readonly settle: (rows: SampledRow[]) => void;
  readonly fail: (error: Error) => void;
  /** Of each of its submits. */
  readonly validation: Promise<GPUError | null>[];
}

/**
 * Runs a model's steps on a WebGPU device: one writeBuffer, one submit and one readback a step; two submits where rows
 * wait for their masks.
 */
export class GpuRunner implements Runner {
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly #parts: GpuRunnerParts;
  readonly #readback: ReadbackRing;
  readonly #draws: StepDraws;
  readonly #words: Uint32Array<ArrayBuffer>;
  #slots: readonly SlotTraits[];
  /** Kernels are being timed: no step may run beside them. */
  #profiling = false;
  /** The step whose masked rows weren't drawn yet. */
  #pending: SubmittedStep | undefined;
  #end: RunnerLostError | undefined;
  /** Rejects the steps that are under way. */
  readonly #inFlight = new Set<(error: RunnerLostError) => void>();

  private constructor(parts: GpuRunnerParts, readback: ReadbackRing) {
    this.#parts = parts;
    this.#readback = readback;
    this.#draws = new StepDraws(parts, parts.limits.hiddenSize);
    this.#words = new Uint32Array(parts.step.size / 4);
    this.limits = parts.limits;
    this.#slots = new Array(parts.limits.maxSequences).fill(PLAIN_SLOT);
    this.weightBytes = parts.weightBytes;
    this.kvBytes = parts.kvBytes;
    void parts.gpu.device.lost.then(({ reason, message }) => {
      this.#finish(new RunnerLostError(`the GPU device was lost (${reason}): ${message || 'no reason given'}`));
    });
  }

  static async create(parts: GpuRunnerParts): Promise<GpuRunner> {
    const bytes = maxStagingWords(parts.limits) * 4;
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
    const step = this.#encodeStep(batch);
    const { device } = this.#parts.gpu;
    const staging = this.#readback.take();
    device.pushErrorScope('validation');
    this.#write(batch, step);
    const encoder = device.createCommandEncoder({ label: 'step' });
    for (let i = 0; i < step.repeat; i++) {
      const pass = encoder.beginComputePass({ label: 'step' });
      if (i > 0) this.#parts.advance.encode(pass, step.rows);
      this.#forward(pass, step, i);
      this.#draws.encode(pass, step);
      pass.end();
      if (step.masked === 0) this.#draws.copyResults(encoder, staging, step, i);
    }
    if (step.masked === 0) this.#draws.copyLists(encoder, staging, step);
    device.queue.submit([encoder.finish()]);
    const validation = [submitProblem(device)];
    return new Promise((settle, fail) => {
      // Not a race with the loss: a promise keeps what waits on it, and every step would stay in memory.
      this.#inFlight.add(fail);
      const submitted = { step, staging, settle, fail, validation };
      if (step.masked === 0) this.#settle(submitted);
      else this.#pending = submitted;
    });
  }

  /** See Runner. Throws RunnerLostError once the device is lost. */
  drawMasked(masks: readonly (Uint32Array | undefined)[]): void {
    if (this.#end) throw this.#end;
    checkMasks(masks, this.#pending?.step.masked ?? 0, this.limits.vocabSize);
    const submitted = this.#pending!;
    this.#pending = undefined;
    const { step, staging } = submitted;
    const { gpu, slots } = this.#parts;
    const { device } = gpu;
    device.pushErrorScope('validation');
    slots.mask(masks);
    const encoder = device.createCommandEncoder({ label: 'masked rows' });
    const pass = encoder.beginComputePass({ label: 'masked rows' });
    this.#draws.encodeMasked(pass, step);
    pass.end();
    this.#draws.copyResults(encoder, staging, step);
    this.#draws.copyLists(encoder, staging, step);
    device.queue.submit([encoder.finish()]);
    submitted.validation.push(submitProblem(device));
    this.#settle(submitted);
  }

  /** See Runner. */
  awaits = (row: SearchedRow) => this.#parts.sampler.awaits(row);

  /** See Runner. Rejects with StepError while a step is under way, with RunnerLostError once the device is lost. */
  async profile(batch: StepBatch, options: ProfileOptions = {}): Promise<StepProfile> {
    if (this.#inFlight.size > 0) throw new StepError('a step is under way, and kernels are timed alone');
    const step = this.#encodeStep(batch);
    const slotsBefore = this.#slots;
    const { pass, dispatches } = new DispatchRecorder();
    if (step.repeat > 1) this.#parts.advance.encode(pass, step.rows);
    this.#forward(pass, step, 0);
    this.#draws.encode(pass, step);
    if (step.masked > 0) this.#draws.encodeMasked(pass, step);
    this.#profiling = true;
    try {
      const parts = { ...this.#parts, tileRows: this.#parts.model.tileRows };
      return await profileStep(parts, step, dispatches, () => this.#write(batch, step), options);
    } finally {
      this.#slots = slotsBefore;
      this.#profiling = false;
    }
  }

  /**
   * Runs `batch`, once and without masks, and gives the raw logits of its logits rows, [vocabulary] each. For tests: it
   * copies them all out.
   */
  async logits(batch: StepBatch): Promise<Float32Array<ArrayBuffer>[]> {
    if (this.#end) throw this.#end;
    const { gpu, model } = this.#parts;
    const { vocabSize } = this.limits;
    const rowBytes = vocabSize * 4;
    const buffer = await gpu.buffers.allocate(
      'captured logits',
      batch.logits.length * rowBytes,
      GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    );
    try {
      const step = this.#encodeStep(batch);
      if (step.masked > 0) throw new StepError('masked rows');
      const encoder = gpu.device.createCommandEncoder({ label: 'step with logits' });
      this.#write(batch, step);
      const pass = encoder.beginComputePass({ label: 'step with logits' });
      this.#forward(pass, step, 0);
      pass.end();
      this.#draws.encodeCaptured(encoder, step, (tile, rows) => {
        encoder.copyBufferToBuffer(model.logits, 0, buffer, tile * model.tileRows * rowBytes, rows * rowBytes);
      });
      gpu.device.queue.submit([encoder.finish()]);
      await buffer.mapAsync(GPUMapMode.READ);
      const values = new Float32Array(buffer.getMappedRange().slice(0));
      return step.logits.map((_, i) => values.slice(i * vocabSize, (i + 1) * vocabSize));
    } finally {
      gpu.buffers.free(buffer);
    }
  }

  /** Compiles what LoadOptions.late left for later; see Gpu.compileLate. */
  compileLate(busy?: () => boolean): Promise<readonly ShaderError[]> {
    return this.#parts.gpu.compileLate(busy);
  }

  /** See Runner. Throws RunnerLostError once the device is lost. */
  async loadAdapter(slot: number, files: AdapterFiles): Promise<AdapterTraits> {
    if (this.#end) throw this.#end;
    return this.#parts.model.loadAdapter(slot, files);
  }

  destroy(): void {
    this.#finish(new RunnerLostError('the runner was destroyed'));
    this.#parts.gpu.destroy();
  }

  #finish(error: RunnerLostError): void {
    this.#end ??= error;
    for (const reject of this.#inFlight) reject(this.#end);
    this.#inFlight.clear();
    this.#pending = undefined;
  }

  #encodeStep(batch: StepBatch): EncodedStep {
    if (this.#end) throw this.#end;
    if (this.#profiling) throw new StepError('kernels are being timed');
    if (this.#pending) throw new StepError("the step before has masked rows that weren't drawn");
    return encodeStep(this.#words, batch, { limits: this.limits, splitItems: this.#parts.splitItems() }, this.#slots);
  }

  /** Writes what the step's kernels read. */
  #write({ sequences, starts = [] }: StepBatch, step: EncodedStep): void {
    const { gpu, model, slots } = this.#parts;
    this.#slots = step.slots;
    for (const start of starts) slots.start(start);
    gpu.device.queue.writeBuffer(this.#parts.step, 0, step.words);
    giveEmbeddings(model, sequences, this.limits.hiddenSize);
  }

  #forward(pass: GPUComputePassEncoder, step: EncodedStep, repetition: number): void {
    const { model } = this.#parts;
    if (repetition === 0) model.copyBlocks(pass, step.copies);
    model.embed(pass, step.rows);
    model.layers(pass, step.rows, step.work, 0, model.layerCount, step.adapted);
  }

  #settle(submitted: SubmittedStep): void {
    const { settle, fail } = submitted;
    void this.#collect(submitted)
      .then(settle, fail)
      .finally(() => this.#inFlight.delete(fail));
  }

  async #collect({ step, staging, validation }: SubmittedStep): Promise<SampledRow[]> {
    const { device } = this.#parts.gpu;
    const { hiddenSize } = this.limits;
    const bytes = stagingLayout(step, hiddenSize).words * 4;
    const invalid = Promise.all(validation).then((errors) => errors.find((error) => error !== null) ?? null);
    try {
      return await readStaging({ device, staging, bytes, validation: invalid, end: () => this.#end }, (results) =>
        bytes === 0 ? [] : readStep(step, new Uint32Array(results), hiddenSize),
      );
    } finally {
      this.#readback.give(staging);
    }
  }
}
