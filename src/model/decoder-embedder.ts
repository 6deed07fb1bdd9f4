import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import type { KernelChoices } from '../gpu/kernel-choices.ts';
import type { ShaderError } from '../gpu/pipeline-cache.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { EmbedLimits, EmbedRunner, EmbedSequence } from './embed-runner.ts';
import { checkBatch } from './encoder-runner.ts';
import type { GpuRunner } from './gpu-runner.ts';
import { mostChunkRows, servedPositions } from './kv-layout.ts';
import { loadDecoder } from './load-decoder.ts';
import { BLOCK_TOKENS, type LogitsRow, type StepSequence } from './runner.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import { VectorSteps } from './vector-steps.ts';

export interface DecoderEmbedderOptions {
  /** Vectors are divided by their length. */
  readonly normalised: boolean;
  /** Shortens what the model takes: ids of one sequence. */
  readonly maxLength?: number | undefined;
  /** Ids of one step; a longer sequence takes several. */
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly kvBudgetBytes: number;
  readonly quantisation?: Quantisation | undefined;
  readonly choices?: KernelChoices | undefined;
  readonly late?: boolean | undefined;
}

/** Loads a decoder of any family for the vectors of its last tokens. Rejects as loadDecoder does. */
export async function loadDecoderEmbedder(
  device: GPUDevice,
  checkpoint: Checkpoint,
  config: ModelConfig,
  { normalised, maxLength = config.contextLength, quantisation, choices, late, ...sizes }: DecoderEmbedderOptions,
): Promise<DecoderEmbedder> {
  const contextLength = Math.min(config.contextLength, maxLength);
  const runner = await loadDecoder(device, checkpoint, config, {
    ...{ ...sizes, contextLength, maxLogitsRows: sizes.maxSequences, maxTopLogprobs: 0 },
    // Room for the longest one, and for a step of short ones, each with a block of its own.
    maxKvBlocks: Math.ceil(Math.max(contextLength, sizes.maxRows) / BLOCK_TOKENS) + sizes.maxSequences,
    ...(quantisation ? { quantisation } : {}),
    ...(choices ? { choices } : {}),
    ...(late === undefined ? {} : { late }),
  });
  try {
    return await DecoderEmbedder.create(runner, normalised);
  } catch (error) {
    runner.destroy();
    throw error;
  }
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
  readonly #runner: GpuRunner;
  readonly #steps: VectorSteps;
  readonly #vectors: GPUBuffer;

  private constructor(runner: GpuRunner, steps: VectorSteps, vectors: GPUBuffer) {
    const { maxRows, maxSequences, contextLength, vocabSize, kvGroups, hiddenSize } = runner.limits;
    this.#runner = runner;
    this.#steps = steps;
    this.#vectors = vectors;
    this.dimension = hiddenSize;
    const longest = servedPositions(kvGroups, contextLength);
    this.limits = { maxRows, maxSequences, contextLength, longest, vocabSize, tokenTypes: 1 };
  }

  static async create(runner: GpuRunner, normalised: boolean): Promise<DecoderEmbedder> {
    const { maxSequences, hiddenSize } = runner.limits;
    const { stride, gpu } = runner.finished;
    const source = await gpu.storage('vectors', maxSequences * stride * 4);
    const rows = { source, stride, dimension: hiddenSize, normalised, maxRows: maxSequences };
    return new DecoderEmbedder(runner, await VectorSteps.create(gpu, rows), source);
  }

  get weightBytes(): number {
    return this.#runner.weightBytes;
  }

  get allocatedBytes(): number {
    return this.#runner.allocatedBytes;
  }

  get allocatedBuffers(): number {
    return this.#runner.allocatedBuffers;
  }

  async embed(sequences: readonly EmbedSequence[]): Promise<Float32Array<ArrayBuffer>[]> {
    checkBatch(sequences, this.limits);
    return this.#steps.run(sequences.length, () => {
      let vectors = 0;
      for (const pieces of this.#cut(sequences)) {
        this.#submit(pieces, vectors);
        vectors += pieces.filter(({ last }) => last).length;
      }
    });
  }

  compileLate(busy?: () => boolean): Promise<readonly ShaderError[]> {
    return this.#runner.compileLate(busy);
  }

  destroy(): void {
    this.#steps.end(new RunnerLostError('the runner was destroyed'));
    this.#runner.destroy();
  }

  /** Steps that follow each other: of whole sequences while these fit together, or of pieces of one. */
  *#cut(sequences: readonly EmbedSequence[]): Generator<readonly Piece[]> {
    const { kvGroups } = this.#runner.limits;
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
    const { kvGroups } = this.#runner.limits;
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
    this.#runner.forward({ sequences, logits }, this.#vectors, vectors);
  }
}

/** A row whose hidden state is wanted; nothing is drawn. */
function lastRow(row: number, slot: number): LogitsRow {
  const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0 };
  return { row, slot, sampling, outputPosition: 0, logprob: false, topLogprobs: 0, scored: 0 };
}
