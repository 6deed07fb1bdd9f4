import { ENCODER_ROW_WORDS } from '../gpu/encoder-embedding.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { packStep } from '../gpu/pack-step.ts';
import type { ShaderError } from '../gpu/pipeline-cache.ts';
import type { EmbedLimits, EmbedRunner, EmbedSequence } from './embed-runner.ts';
import type { Encoder } from './encoder.ts';
import { encoderPositions } from './encoder-positions.ts';
import { BLOCK_TOKENS } from './runner.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import { isIndex, StepError } from './step-error.ts';
import type { VectorSteps } from './vector-steps.ts';

export interface EncoderRunnerParts {
  readonly gpu: Gpu;
  readonly encoder: Encoder;
  readonly steps: VectorSteps;
  readonly kind: EmbedRunner['kind'];
  readonly dimension: number;
  readonly hiddenStride: number;
  readonly positionPad: number | undefined;
  readonly limits: EmbedLimits;
  /** Metadata of the step, and what its rows embed. */
  readonly step: GPUBuffer;
  readonly rows: GPUBuffer;
  readonly weightBytes: number;
}

/** Runs an encoder's steps on a WebGPU device: two writeBuffers, two submits and one readback a step. */
export class EncoderRunner implements EmbedRunner {
  readonly kind: EmbedRunner['kind'];
  readonly dimension: number;
  readonly limits: EmbedLimits;
  readonly weightBytes: number;
  readonly #parts: EncoderRunnerParts;
  readonly #words: Uint32Array<ArrayBuffer>;

  constructor(parts: EncoderRunnerParts) {
    this.#parts = parts;
    this.kind = parts.kind;
    this.dimension = parts.dimension;
    this.limits = parts.limits;
    this.weightBytes = parts.weightBytes;
    this.#words = new Uint32Array(parts.step.size / 4);
  }

  get allocatedBytes(): number {
    return this.#parts.gpu.buffers.liveBytes;
  }

  /** GPU buffers alive. */
  get allocatedBuffers(): number {
    return this.#parts.gpu.buffers.liveBuffers;
  }

  async embed(sequences: readonly EmbedSequence[]): Promise<Float32Array<ArrayBuffer>[]> {
    checkBatch(sequences, this.limits);
    return this.#parts.steps.run(sequences.length, () => this.#submit(sequences));
  }

  /** Hidden states of a sequence after the last layer, [ids, hiddenStride]. For tests: it copies them all out. */
  async hidden(sequence: EmbedSequence): Promise<Float32Array<ArrayBuffer>> {
    const { gpu, encoder, hiddenStride } = this.#parts;
    await this.embed([sequence]);
    const bytes = sequence.ids.length * hiddenStride * 4;
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const staging = await gpu.buffers.allocate('captured hidden states', bytes, usage);
    try {
      const commands = gpu.device.createCommandEncoder();
      commands.copyBufferToBuffer(encoder.hidden, 0, staging, 0, bytes);
      gpu.device.queue.submit([commands.finish()]);
      await staging.mapAsync(GPUMapMode.READ);
      return new Float32Array(staging.getMappedRange(0, bytes).slice(0));
    } finally {
      gpu.buffers.free(staging);
    }
  }

  /** Compiles what was left for later; see Gpu.compileLate. */
  compileLate(busy?: () => boolean): Promise<readonly ShaderError[]> {
    return this.#parts.gpu.compileLate(busy);
  }

  destroy(): void {
    this.#parts.steps.end(new RunnerLostError('the runner was destroyed'));
    this.#parts.gpu.destroy();
  }

  #submit(sequences: readonly EmbedSequence[]): void {
    const { gpu, encoder, step, rows, positionPad } = this.#parts;
    const { device } = gpu;
    let block = 0;
    const entries = sequences.map(({ ids }, slot) => {
      // Each begins with a block of its own: which one makes no difference to its numbers.
      const blockTable = Array.from({ length: Math.ceil(ids.length / BLOCK_TOKENS) }, () => block++);
      return { slot, tokens: ids, startPosition: 0, blockTable };
    });
    // No row is split: an encoder's sequences bring rows enough.
    const packed = packStep(this.#words, entries, [], 0);
    const sources = new Uint32Array(packed.rows * ENCODER_ROW_WORDS);
    let row = 0;
    for (const { ids, typeIds } of sequences) {
      const positions = encoderPositions(ids, positionPad);
      for (let i = 0; i < ids.length; i++, row++) {
        sources.set([ids[i]!, positions[i]!, typeIds?.[i] ?? 0], row * ENCODER_ROW_WORDS);
      }
    }
    device.queue.writeBuffer(step, 0, packed.words);
    device.queue.writeBuffer(rows, 0, sources);
    const commands = device.createCommandEncoder({ label: 'encoder step' });
    const pass = commands.beginComputePass({ label: 'encoder step' });
    encoder.encode(pass, packed.rows, sequences.length, packed.work);
    pass.end();
    device.queue.submit([commands.finish()]);
  }
}

/** Throws StepError where the sequences are more than a step takes, or say what the model doesn't know. */
export function checkBatch(sequences: readonly EmbedSequence[], limits: EmbedLimits): void {
  const { maxRows, maxSequences, longest, vocabSize, tokenTypes } = limits;
  if (sequences.length < 1 || sequences.length > maxSequences) {
    throw new StepError(`${sequences.length} sequences in a step, which takes 1 to ${maxSequences}`);
  }
  let rows = 0;
  for (const { ids, typeIds } of sequences) {
    rows += ids.length;
    if (ids.length < 1 || ids.length > longest)
      throw new StepError(`a sequence of ${ids.length} ids, at most ${longest}`);
    if (typeIds && typeIds.length !== ids.length)
      throw new StepError(`${typeIds.length} token types for ${ids.length} ids`);
    for (let i = 0; i < ids.length; i++) {
      if (!isIndex(ids[i], vocabSize)) throw new StepError('an id outside the vocabulary');
      if (typeIds && !isIndex(typeIds[i], tokenTypes)) throw new StepError('an unknown token type');
    }
  }
  if (sequences.length > 1 && rows > maxRows) throw new StepError(`${rows} ids in a step, which takes ${maxRows}`);
}
