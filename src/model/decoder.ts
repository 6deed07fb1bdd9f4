import type { AttentionWork } from '../gpu/attention.ts';
import { Embedding } from '../gpu/embedding.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { Linear } from '../gpu/linear.ts';
import { MATVEC_COLUMNS } from '../gpu/linear-choice.ts';
import { RmsNorm } from '../gpu/rms-norm.ts';
import { ropeTable } from '../gpu/rope-table.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import { allocateActivations, DecoderLayer } from './decoder-layer.ts';
import type { DecoderWeights } from './decoder-weights.ts';
import type { ForwardModel } from './forward-model.ts';
import type { LlamaConfig } from './llama-config.ts';

/** What a Llama shares with its runner. */
export interface DecoderPlace {
  /** Metadata of the step. */
  readonly step: GPUBuffer;
  /** [maxSequences] u32: the id each slot sampled last. */
  readonly lastIds: GPUBuffer;
  /** One a layer of the weights: [blocks, 2, kvHeads, 16, headSize]. */
  readonly kv: readonly GPUBuffer[];
  readonly maxRows: number;
  readonly maxLogitsRows: number;
  /** Positions there can be. */
  readonly positions: number;
  /** Scratch of attention's split form. */
  readonly attentionParts: GPUBuffer;
}

interface Head {
  readonly norm: RmsNorm;
  readonly tiles: readonly Linear[];
  readonly tileRows: number;
  readonly normed: GPUBuffer;
  readonly logits: GPUBuffer;
}

/** Llama's forward step (Touvron et al., 2023; layers as in Hugging Face's LlamaForCausalLM), composed of kernels. */
export class Decoder implements ForwardModel {
  readonly layerCount: number;
  readonly hiddenStride: number;
  readonly #embedding: Embedding | undefined;
  readonly #layers: readonly DecoderLayer[];
  readonly #first: number;
  readonly #head: Head | undefined;

  private constructor(
    first: number,
    hiddenStride: number,
    embedding: Embedding | undefined,
    layers: readonly DecoderLayer[],
    head: Head | undefined,
  ) {
    this.#first = first;
    this.hiddenStride = hiddenStride;
    this.#embedding = embedding;
    this.#layers = layers;
    this.#head = head;
    this.layerCount = layers.length;
  }

  static async create(gpu: Gpu, config: LlamaConfig, weights: DecoderWeights, place: DecoderPlace): Promise<Decoder> {
    const activations = await allocateActivations(gpu, config, weights, place.maxRows);
    const table = await gpu.storage('rope table', place.positions * config.headSize * 4);
    gpu.device.queue.writeBuffer(table, 0, ropeTable(place.positions, config.headSize, config.ropeTheta));
    const { step, attentionParts } = place;
    const { hidden, scaled, squares } = activations;
    const [embedding, head, ...layers] = await Promise.all([
      weights.embedding &&
        Embedding.create(gpu, weights.embedding, {
          step,
          lastIds: place.lastIds,
          output: hidden,
          norm: { gain: weights.layers[0]!.attentionNorm, scaled, squares },
        }),
      weights.head && weights.finalNorm
        ? createHead(gpu, config, weights.head, weights.finalNorm, hidden, place)
        : undefined,
      ...weights.layers.map((layer, i) =>
        DecoderLayer.create(gpu, config, layer, activations, {
          ...{ step, kv: place.kv[i]!, table, attentionParts },
          nextNorm: weights.layers[i + 1]?.attentionNorm ?? weights.finalNorm,
        }),
      ),
    ]);
    return new Decoder(weights.from, 4 * rowWords(config.hiddenSize), embedding, layers, head);
  }

  get tileRows(): number {
    return this.#loadedHead.tileRows;
  }

  get logits(): GPUBuffer {
    return this.#loadedHead.logits;
  }

  get finished(): GPUBuffer {
    return this.#loadedHead.normed;
  }

  /** Whether attention can split rows by now. */
  get splits(): boolean {
    return this.#layers.every((layer) => layer.attention.splits);
  }

  copyBlocks(pass: GPUComputePassEncoder, copies: number): void {
    for (const layer of this.#layers) layer.kvCopy.encode(pass, copies);
  }

  giveEmbeddings(row: number, embeddings: Float32Array): void {
    this.#loadedEmbedding.give(row, embeddings);
  }

  embed(pass: GPUComputePassEncoder, rows: number): void {
    this.#loadedEmbedding.encode(pass, rows);
  }

  layers(pass: GPUComputePassEncoder, rows: number, work: AttentionWork, from: number, to: number): void {
    for (const layer of this.#layers.slice(from - this.#first, to - this.#first)) layer.encode(pass, rows, work);
  }

  finish(pass: GPUComputePassEncoder, logitsRows: number): void {
    this.#loadedHead.norm.encode(pass, logitsRows);
  }

  head(pass: GPUComputePassEncoder, tile: number, rows: number): void {
    this.#loadedHead.tiles[tile]!.encode(pass, rows);
  }

  get #loadedEmbedding(): Embedding {
    if (!this.#embedding) throw new Error('the embedding is not among the loaded layers');
    return this.#embedding;
  }

  get #loadedHead(): Head {
    if (!this.#head) throw new Error('the head is not among the loaded layers');
    return this.#head;
  }
}

async function createHead(
  gpu: Gpu,
  config: LlamaConfig,
  matrix: WeightMatrix,
  weight: GPUBuffer,
  hidden: GPUBuffer,
  { step, maxLogitsRows }: DecoderPlace,
): Promise<Head> {
  // A tile is what one matrix-vector product takes: the head's weights are read once for it.
  const tileRows = Math.min(MATVEC_COLUMNS.at(-1)!, maxLogitsRows);
  const [normed, logits] = await Promise.all([
    gpu.storage('final normed', maxLogitsRows * rowWords(config.hiddenSize) * 16),
    gpu.storage('logits', tileRows * config.vocabSize * 4),
  ]);
  const norm = await RmsNorm.create(
    gpu,
    { columns: config.hiddenSize, epsilon: config.normEpsilon, of: 'logits' },
    { step, input: hidden, weight, output: normed },
  );
  const tiles = await Promise.all(
    Array.from({ length: Math.ceil(maxLogitsRows / tileRows) }, (_, tile) =>
      Linear.create(
        gpu,
        matrix,
        {
          outputStride: config.vocabSize,
          countWord: STEP_HEADER.logits,
          firstColumn: tile * tileRows,
          mostColumns: tileRows,
        },
        { step, input: normed, output: logits },
      ),
    ),
  );
  return { norm, tiles, tileRows, normed, logits };
}
