import { Attention, type AttentionWork } from '../gpu/attention.ts';
import { Embedding } from '../gpu/embedding.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { KvCopy } from '../gpu/kv-copy.ts';
import { Linear, MATVEC_COLUMNS } from '../gpu/linear.ts';
import { RmsNorm } from '../gpu/rms-norm.ts';
import { Rope } from '../gpu/rope.ts';
import { ropeTable } from '../gpu/rope-table.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import { Swiglu } from '../gpu/swiglu.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { ForwardModel } from './forward-model.ts';
import { blockBytes } from './kv-layout.ts';
import type { LlamaConfig } from './llama-config.ts';
import type { LlamaLayerWeights, LlamaWeights } from './llama-weights.ts';

/** What a Llama shares with its runner. */
export interface LlamaPlace {
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

/** Buffers of activations, one a purpose: no dispatch may read and write one buffer. */
interface Activations {
  /** The residual stream. */
  readonly hidden: GPUBuffer;
  readonly normed: GPUBuffer;
  readonly qkv: GPUBuffer;
  readonly query: GPUBuffer;
  readonly attended: GPUBuffer;
  readonly gateUp: GPUBuffer;
  readonly gated: GPUBuffer;
}

interface Layer {
  readonly kvCopy: KvCopy;
  readonly attentionNorm: RmsNorm;
  readonly qkv: Linear;
  readonly rope: Rope;
  readonly attention: Attention;
  readonly attentionOutput: Linear;
  readonly feedForwardNorm: RmsNorm;
  readonly gateUp: Linear;
  readonly swiglu: Swiglu;
  readonly down: Linear;
}

interface Head {
  readonly norm: RmsNorm;
  readonly tiles: readonly Linear[];
  readonly tileRows: number;
  readonly normed: GPUBuffer;
  readonly logits: GPUBuffer;
}

/** Llama's forward step (Touvron et al., 2023; layers as in Hugging Face's LlamaForCausalLM), composed of kernels. */
export class Llama implements ForwardModel {
  readonly layerCount: number;
  readonly hiddenStride: number;
  readonly #embedding: Embedding | undefined;
  readonly #layers: readonly Layer[];
  readonly #first: number;
  readonly #head: Head | undefined;

  private constructor(
    first: number,
    hiddenStride: number,
    embedding: Embedding | undefined,
    layers: readonly Layer[],
    head: Head | undefined,
  ) {
    this.#first = first;
    this.hiddenStride = hiddenStride;
    this.#embedding = embedding;
    this.#layers = layers;
    this.#head = head;
    this.layerCount = layers.length;
  }

  static async create(gpu: Gpu, config: LlamaConfig, weights: LlamaWeights, place: LlamaPlace): Promise<Llama> {
    const activations = await allocateActivations(gpu, config, place.maxRows);
    const table = await gpu.storage('rope table', place.positions * config.headSize * 4);
    gpu.device.queue.writeBuffer(table, 0, ropeTable(place.positions, config.headSize, config.ropeTheta));
    const [embedding, head, ...layers] = await Promise.all([
      weights.embedding &&
        Embedding.create(gpu, weights.embedding, {
          step: place.step,
          lastIds: place.lastIds,
          output: activations.hidden,
        }),
      weights.head && weights.finalNorm
        ? createHead(gpu, config, weights.head, weights.finalNorm, activations.hidden, place)
        : undefined,
      ...weights.layers.map((layer, i) => createLayer(gpu, config, layer, place.kv[i]!, table, activations, place)),
    ]);
    return new Llama(weights.from, 4 * rowWords(config.hiddenSize), embedding, layers, head);
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
    for (const layer of this.#layers.slice(from - this.#first, to - this.#first)) {
      layer.attentionNorm.encode(pass, rows);
      layer.qkv.encode(pass, rows);
      layer.rope.encode(pass, rows);
      layer.attention.encode(pass, work);
      layer.attentionOutput.encode(pass, rows);
      layer.feedForwardNorm.encode(pass, rows);
      layer.gateUp.encode(pass, rows);
      layer.swiglu.encode(pass, rows);
      layer.down.encode(pass, rows);
    }
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

async function allocateActivations(gpu: Gpu, config: LlamaConfig, rows: number): Promise<Activations> {
  const allocate = (label: string, columns: number) => gpu.storage(label, rows * rowWords(columns) * 16);
  const queryColumns = config.heads * config.headSize;
  const [hidden, normed, qkv, query, attended, gateUp, gated] = await Promise.all([
    allocate('hidden', config.hiddenSize),
    allocate('normed', config.hiddenSize),
    allocate('qkv', queryColumns + 2 * config.kvHeads * config.headSize),
    allocate('query', queryColumns),
    allocate('attended', queryColumns),
    allocate('gate | up', 2 * config.intermediateSize),
    allocate('gated', config.intermediateSize),
  ]);
  return { hidden, normed, qkv, query, attended, gateUp, gated };
}

async function createLayer(
  gpu: Gpu,
  config: LlamaConfig,
  weights: LlamaLayerWeights,
  kv: GPUBuffer,
  table: GPUBuffer,
  activations: Activations,
  { step, attentionParts }: LlamaPlace,
): Promise<Layer> {
  const { hidden, normed, qkv, query, attended, gateUp, gated } = activations;
  const norm = (weight: GPUBuffer) =>
    RmsNorm.create(
      gpu,
      { columns: config.hiddenSize, epsilon: config.normEpsilon, of: 'rows' },
      { step, input: hidden, weight, output: normed },
    );
  const linear = (matrix: WeightMatrix, input: GPUBuffer, output: GPUBuffer, residual = false) =>
    Linear.create(
      gpu,
      matrix,
      {
        outputStride: 4 * rowWords(matrix.rows),
        countWord: STEP_HEADER.rows,
        finish: { kind: residual ? 'add' : 'store' },
      },
      { step, input, output },
    );
  const heads = { heads: config.heads, kvHeads: config.kvHeads, headSize: config.headSize, kvFormat: 'f32' } as const;
  const kvCopy = await KvCopy.create(
    gpu,
    blockBytes({ layers: [], kvHeads: heads.kvHeads, headSize: heads.headSize, format: heads.kvFormat }),
    { step, kv },
  );
  const [attentionNorm, qkvProduct, rope, attention, attentionOutput, feedForwardNorm, gateUpProduct, swiglu, down] =
    await Promise.all([
      norm(weights.attentionNorm),
      linear(weights.qkv, normed, qkv),
      Rope.create(gpu, heads, { step, qkv, table, query, kv }),
      Attention.create(gpu, heads, { step, query, kv, parts: attentionParts, output: attended }),
      linear(weights.attentionOutput, attended, hidden, true),
      norm(weights.feedForwardNorm),
      linear(weights.gateUp, normed, gateUp),
      Swiglu.create(gpu, config.intermediateSize, { step, input: gateUp, output: gated }),
      linear(weights.down, gated, hidden, true),
    ]);
  return {
    kvCopy,
    attentionNorm,
    qkv: qkvProduct,
    rope,
    attention,
    attentionOutput,
    feedForwardNorm,
    gateUp: gateUpProduct,
    swiglu,
    down,
  };
}

async function createHead(
  gpu: Gpu,
  config: LlamaConfig,
  matrix: WeightMatrix,
  weight: GPUBuffer,
  hidden: GPUBuffer,
  { step, maxLogitsRows }: LlamaPlace,
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
        },
        { step, input: normed, output: logits },
      ),
    ),
  );
  return { norm, tiles, tileRows, normed, logits };
}
