import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { Gpu } from '../gpu/gpu.ts';
import type { KernelChoices } from '../gpu/kernel-choices.ts';
import type { ShaderError } from '../gpu/pipeline-cache.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { compileKernels } from './compile-kernels.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { decoderKernels } from './decoder-kernels.ts';
import { openDecoder } from './describe-decoder.ts';
import type { EmbedLimits, EmbedRunner, EmbedSequence } from './embed-runner.ts';
import { mostEmbedderBlocks } from './embedder-blocks.ts';
import { checkBatch } from './encoder-runner.ts';
import { mostChunkRows, servedPositions } from './kv-layout.ts';
import { type DecoderRoom, decoderRoom, type PlacedDecoder, placeDecoder } from './place-decoder.ts';
import { BLOCK_TOKENS, type LogitsRow, type RunnerLimits, type StepBatch, type StepSequence } from './runner.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import { PLAIN_SLOT, type SlotTraits } from './slot-traits.ts';
import { encodeStep } from './step-metadata.ts';
import { VectorSteps } from './vector-steps.ts';

/** How much a decoder is to take at a time. */
interface DecoderEmbedderSizes {
  /** Shortens what the model takes: ids of one sequence. */
  readonly maxLength?: number | undefined;
  /** Ids of one step; a longer sequence takes several. */
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly kvBudgetBytes: number;
}

export interface DecoderEmbedderOptions extends DecoderEmbedderSizes {
  /** Vectors are divided by their length. */
  readonly normalised: boolean;
  readonly quantisation?: Quantisation | undefined;
  readonly choices?: KernelChoices | undefined;
  readonly late?: boolean | undefined;
  /** Bytes of tensors read so far, of all that will be. */
  readonly onProgress?: ((loadedBytes: number, totalBytes: number) => void) | undefined;
}

/**
 * Loads a decoder of any family for the vectors of its last tokens, without its head. Everything allocated is freed again
 * if it fails. Rejects as loadDecoder does.
 */
export async function loadDecoderEmbedder(
  device: GPUDevice,
  stored: Checkpoint,
  modelConfig: ModelConfig,
  { normalised, maxLength, late = false, ...options }: DecoderEmbedderOptions,
): Promise<DecoderEmbedder> {
  const opened = openDecoder(stored, modelConfig);
  const gpu = new Gpu(device, { ...options, late });
  try {
    const needs = decoderKernels(stored, modelConfig, { ...options, headless: true, bindingLimit: gpu.bindingLimit });
    const [embedder] = await Promise.all([
      load(gpu, opened, decoderEmbedderRoom(opened.config, { ...options, maxLength }, gpu.bindingLimit), {
        ...{ ...options, normalised },
      }),
      compileKernels(gpu, needs),
    ]);
    return embedder;
  } catch (error) {
    gpu.destroy();
    throw error;
  }
}

/** What a decoder's vectors are made in. Throws RangeError naming the option. */
function decoderEmbedderRoom(
  config: DecoderConfig,
  { maxLength = config.contextLength, maxRows, maxSequences, kvBudgetBytes }: DecoderEmbedderSizes,
  bindingLimit: number,
): DecoderRoom {
  const contextLength = Math.min(config.contextLength, maxLength);
  const sizes = { maxRows, maxSequences, contextLength, maxLogitsRows: maxSequences, maxTopLogprobs: 0 };
  const maxKvBlocks = mostEmbedderBlocks(sizes);
  return decoderRoom(config, { ...sizes, kvBudgetBytes, maxKvBlocks }, bindingLimit);
}

async function load(
  gpu: Gpu,
  opened: ReturnType<typeof openDecoder>,
  room: DecoderRoom,
  { normalised, quantisation, onProgress }: DecoderEmbedderOptions,
): Promise<DecoderEmbedder> {
  const { maxSequences, hiddenSize } = room.limits;
  // Nothing is drawn: every row's id is given.
  const lastIds = await gpu.storage('last ids', maxSequences * 4);
  const placed = await placeDecoder(gpu, opened, room, { quantisation, onProgress, headless: true, lastIds });
  const stride = placed.model.hiddenStride;
  const vectors = await gpu.storage('vectors', maxSequences * stride * 4);
  const steps = await VectorSteps.create(gpu, {
    ...{ source: vectors, stride, dimension: hiddenSize, normalised, maxRows: maxSequences },
  });
  return new DecoderEmbedder({ ...placed, gpu, steps, vectors, limits: room.limits });
}

interface DecoderEmbedderParts extends PlacedDecoder {
  readonly gpu: Gpu;
  readonly steps: VectorSteps;
  /** [maxSequences, hiddenStride] f32: a step's vectors. */
  readonly vectors: GPUBuffer;
  readonly limits: RunnerLimits;
}

/** A sequence's rows of one step. */
interface Piece {
  readonly ids: ArrayLike<number>;
  readonly from: number;
  readonly to: number;
  /** Of the pool's blocks the first that it may take. */
  readonly firstBlock: number;
  /** Its last row is the vector. */
  readonly last: boolean;
}

/**
 * A decoder's vector of a sequence: its last token's hidden state after the final norm (Qwen3-Embedding). Attention is
 * causal, so that a long sequence is read in pieces; nothing is kept from one to the next.
 */
export class DecoderEmbedder implements EmbedRunner {
  readonly kind = 'embedding';
  readonly dimension: number;
  readonly limits: EmbedLimits;
  readonly weightBytes: number;
  readonly #parts: DecoderEmbedderParts;
  readonly #words: Uint32Array<ArrayBuffer>;
  readonly #slots: readonly SlotTraits[];

  constructor(parts: DecoderEmbedderParts) {
    const { maxRows, maxSequences, contextLength, vocabSize, kvGroups, hiddenSize } = parts.limits;
    this.#parts = parts;
    this.#words = new Uint32Array(parts.step.size / 4);
    this.#slots = new Array<SlotTraits>(maxSequences).fill(PLAIN_SLOT);
    this.dimension = hiddenSize;
    this.weightBytes = parts.weightBytes;
    const longest = servedPositions(kvGroups, contextLength);
    this.limits = { maxRows, maxSequences, contextLength, longest, vocabSize, tokenTypes: 1 };
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
    return this.#parts.steps.run(sequences.length, () => {
      let vectors = 0;
      for (const pieces of this.#cut(sequences)) {
        this.#submit(pieces, vectors);
        vectors += pieces.filter(({ last }) => last).length;
      }
    });
  }

  compileLate(busy?: () => boolean): Promise<readonly ShaderError[]> {
    return this.#parts.gpu.compileLate(busy);
  }

  destroy(): void {
    this.#parts.steps.end(new RunnerLostError('the runner was destroyed'));
    this.#parts.gpu.destroy();
  }

  /** Steps that follow each other: of whole sequences while these fit together, or of pieces of one. */
  *#cut(sequences: readonly EmbedSequence[]): Generator<readonly Piece[]> {
    const { kvGroups } = this.#parts.limits;
    const blocks = Math.min(...kvGroups.map((group) => group.blocks));
    const mostRows = Math.min(this.limits.maxRows, mostChunkRows(kvGroups));
    let step: Piece[] = [];
    let rows = 0;
    let taken = 0;
    for (const { ids } of sequences) {
      const needed = Math.ceil(ids.length / BLOCK_TOKENS);
      if (step.length > 0 && (rows + ids.length > mostRows || taken + needed > blocks)) {
        yield step;
        [step, rows, taken] = [[], 0, 0];
      }
      let from = 0;
      for (; ids.length - from > mostRows; from += mostRows) {
        yield [{ ids, from, to: from + mostRows, firstBlock: 0, last: false }];
      }
      step.push({ ids, from, to: ids.length, firstBlock: taken, last: true });
      rows += ids.length - from;
      taken += needed;
    }
    yield step;
  }

  #submit(pieces: readonly Piece[], vectors: number): void {
    const { kvGroups } = this.#parts.limits;
    let row = 0;
    const logits: LogitsRow[] = [];
    const sequences = pieces.map(({ ids, from, to, firstBlock, last }, slot): StepSequence => {
      row += to - from;
      if (last) logits.push(lastRow(row - 1, slot));
      // What a window has left behind is written over.
      const tables = kvGroups.map((group) =>
        Array.from({ length: Math.ceil(to / BLOCK_TOKENS) }, (_, block) => (firstBlock + block) % group.blocks),
      );
      const [blockTable, ...moreTables] = tables;
      const tokens = Uint32Array.from({ length: to - from }, (_, i) => ids[from + i]!);
      return {
        slot,
        tokens,
        startPosition: from,
        blockTable: blockTable!,
        ...(moreTables.length ? { moreTables } : {}),
      };
    });
    this.#forward({ sequences, logits }, vectors);
  }

  /** Submits `batch`, and leaves hidden states of its logits rows after the final norm in the vectors' rows from `at` on. */
  #forward(batch: StepBatch, at: number): void {
    const { gpu, model, step, vectors, limits, splitItems } = this.#parts;
    const { rows, work, words } = encodeStep(this.#words, batch, { limits, splitItems: splitItems() }, this.#slots);
    const finished = batch.logits.length;
    const rowBytes = model.hiddenStride * 4;
    gpu.device.queue.writeBuffer(step, 0, words);
    const encoder = gpu.device.createCommandEncoder({ label: 'embedding step' });
    const pass = encoder.beginComputePass({ label: 'embedding step' });
    model.embed(pass, rows);
    model.layers(pass, rows, work, 0, model.layerCount);
    if (finished > 0) model.finish(pass, finished);
    pass.end();
    if (finished > 0) encoder.copyBufferToBuffer(model.finished, 0, vectors, at * rowBytes, finished * rowBytes);
    gpu.device.queue.submit([encoder.finish()]);
  }
}

/** A row whose hidden state is wanted; nothing is drawn. */
function lastRow(row: number, slot: number): LogitsRow {
  const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0 };
  return { row, slot, sampling, outputPosition: 0, logprob: false, topLogprobs: 0, scored: 0 };
}
