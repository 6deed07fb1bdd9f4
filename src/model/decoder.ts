import type { AttentionWork } from '../gpu/attention.ts';
import { Embedding } from '../gpu/embedding.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { LayerNorm } from '../gpu/layer-norm.ts';
import { Linear } from '../gpu/linear.ts';
import { MATVEC_COLUMNS } from '../gpu/linear-choice.ts';
import { RmsNorm } from '../gpu/rms-norm.ts';
import { ropeTable } from '../gpu/rope-table.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import { type AdapterRoom, DecoderAdapters } from './decoder-adapters.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { DecoderLayer, type LayerKv } from './decoder-layer.ts';
import type { DecoderWeights, NormWeights } from './decoder-weights.ts';
import type { ForwardModel } from './forward-model.ts';
import { allocateScratch } from './layer-scratch.ts';
import type { AdapterFiles } from './read-adapter.ts';
import { ResidualStream } from './residual-stream.ts';
import type { RowsKernel } from './rows-kernel.ts';
import type { AdapterTraits } from './runner.ts';

/** What a decoder shares with its runner. */
export interface DecoderPlace {
  /** Metadata of the step. */
  readonly step: GPUBuffer;
  /** [maxSequences] u32: the id each slot sampled last. */
  readonly lastIds: GPUBuffer;
  /** One a layer of the weights. */
  readonly kv: readonly LayerKv[];
  readonly maxRows: number;
  readonly maxLogitsRows: number;
  /** Positions there can be. */
  readonly positions: number;
  /** Scratch of attention's split form. */
  readonly attentionParts: GPUBuffer;
  /** Where adapters may come in, of all layers of the model, and how many there may be of which rank. */
  readonly adapters: AdapterRoom;
}

/** The final norm of the rows that are asked for. */
interface Finish {
  readonly norm: RowsKernel;
  readonly normed: GPUBuffer;
}

/** What makes logits of them. */
interface Head {
  readonly tiles: readonly Linear[];
  readonly tileRows: number;
  readonly logits: GPUBuffer;
}

/** The embedding, and what follows it before the first layer. */
interface Entry {
  readonly tokens: Embedding;
  readonly after: readonly RowsKernel[];
}

/** A decoder's forward step, composed of kernels as its config says. */
export class Decoder implements ForwardModel {
  readonly layerCount: number;
  readonly hiddenStride: number;
  readonly #entry: Entry | undefined;
  readonly #layers: readonly DecoderLayer[];
  readonly #first: number;
  readonly #finish: Finish | undefined;
  readonly #head: Head | undefined;
  readonly #adapters: DecoderAdapters;

  private constructor(
    first: number,
    hiddenStride: number,
    entry: Entry | undefined,
    layers: readonly DecoderLayer[],
    [finish, head]: readonly [Finish | undefined, Head | undefined],
    adapters: DecoderAdapters,
  ) {
    this.#adapters = adapters;
    this.#first = first;
    this.hiddenStride = hiddenStride;
    this.#entry = entry;
    this.#layers = layers;
    this.#finish = finish;
    this.#head = head;
    this.layerCount = layers.length;
  }

  static async create(gpu: Gpu, config: DecoderConfig, weights: DecoderWeights, place: DecoderPlace): Promise<Decoder> {
    const { step, attentionParts } = place;
    const [stream, scratch, tables] = await Promise.all([
      ResidualStream.create(gpu, config, step, place.maxRows),
      allocateScratch(gpu, config, weights, place.maxRows, step),
      Promise.all(
        config.ropes.map(async (rope, i) => {
          const values = ropeTable(place.positions, rope);
          const table = await gpu.storage(`rope table ${i}`, values.byteLength);
          gpu.device.queue.writeBuffer(table, 0, values);
          return table;
        }),
      ),
    ]);
    const finish = weights.finalNorm && (await createFinish(gpu, config, weights.finalNorm, stream, place));
    const [entry, head, ...layers] = await Promise.all([
      weights.embedding && createEntry(gpu, config, weights, stream, place.lastIds),
      weights.head && finish && createHead(gpu, config, weights.head, finish.normed, place),
      ...weights.layers.map((layer, i) =>
        DecoderLayer.create(gpu, config, weights.from + i, layer, {
          ...{ stream, scratch, kv: place.kv[i]!, tables, attentionParts },
          nextNorm: nextNorm(config, weights, i + 1),
        }),
      ),
    ]);
    const adapters = new DecoderAdapters(gpu, weights.layers, layers, place);
    return new Decoder(weights.from, stream.stride, entry, layers, [finish, head], adapters);
  }

  get tileRows(): number {
    return this.#loadedHead.tileRows;
  }

  get logits(): GPUBuffer {
    return this.#loadedHead.logits;
  }

  get finished(): GPUBuffer {
    return this.#loadedFinish.normed;
  }

  /** Whether attention can split rows by now. */
  get splits(): boolean {
    return this.#layers.every((layer) => layer.attention.splits);
  }

  copyBlocks(pass: GPUComputePassEncoder, copies: number): void {
    for (const layer of this.#layers) layer.kvCopy.encode(pass, copies);
  }

  giveEmbeddings(row: number, embeddings: Float32Array): void {
    this.#loadedEntry.tokens.give(row, embeddings);
  }

  embed(pass: GPUComputePassEncoder, rows: number): void {
    const { tokens, after } = this.#loadedEntry;
    tokens.encode(pass, rows);
    for (const kernel of after) kernel.encode(pass, rows);
  }

  layers(
    pass: GPUComputePassEncoder,
    rows: number,
    work: AttentionWork,
    from: number,
    to: number,
    adapted = false,
  ): void {
    for (const layer of this.#layers.slice(from - this.#first, to - this.#first)) {
      layer.encode(pass, rows, work, adapted);
    }
  }

  /** See Runner. With the first one, the kernels that adapters need are compiled, and their slots allocated. */
  async loadAdapter(slot: number, files: AdapterFiles): Promise<AdapterTraits> {
    return this.#adapters.load(slot, files);
  }

  finish(pass: GPUComputePassEncoder, logitsRows: number): void {
    this.#loadedFinish.norm.encode(pass, logitsRows);
  }

  head(pass: GPUComputePassEncoder, tile: number, rows: number): void {
    this.#loadedHead.tiles[tile]!.encode(pass, rows);
  }

  get #loadedEntry(): Entry {
    if (!this.#entry) throw new Error('the embedding is not among the loaded layers');
    return this.#entry;
  }

  get #loadedFinish(): Finish {
    if (!this.#finish) throw new Error('the final norm is not among the loaded layers');
    return this.#finish;
  }

  get #loadedHead(): Head {
    if (!this.#head) throw new Error('no head was loaded');
    return this.#head;
  }
}

/** The norm under which layer `index` of the loaded ones reads the stream; after the last one the head's, where it is loaded. */
function nextNorm(config: DecoderConfig, { from, layers, finalNorm }: DecoderWeights, index: number) {
  if (index < layers.length) return layers[index]!.attentionNorm;
  return config.layers[from + index - 1]!.norms === 'after' ? undefined : finalNorm;
}

async function createEntry(
  gpu: Gpu,
  config: DecoderConfig,
  weights: DecoderWeights,
  stream: ResidualStream,
  lastIds: GPUBuffer,
): Promise<Entry> {
  const { step, hidden, scaled, squares } = stream;
  const buffers = { step, lastIds, output: hidden };
  const norm = weights.layers[0]!.attentionNorm;
  const scale = config.embeddingScale;
  if (norm && config.norm.kind === 'rms' && !weights.positions) {
    const next = { gain: norm.gain, scaled, squares };
    return {
      tokens: await Embedding.create(gpu, weights.embedding!, { ...buffers, norm: next }, { scale }),
      after: [],
    };
  }
  const [tokens, ...after] = await Promise.all([
    Embedding.create(gpu, weights.embedding!, buffers, { scale }),
    ...(weights.positions ? [Embedding.create(gpu, weights.positions, buffers, { positions: true })] : []),
    ...stream.enter(norm),
  ]);
  return { tokens, after };
}

async function createFinish(
  gpu: Gpu,
  { hiddenSize, norm: { kind, epsilon } }: DecoderConfig,
  { gain, bias }: NormWeights,
  { hidden }: ResidualStream,
  { step, maxLogitsRows }: DecoderPlace,
): Promise<Finish> {
  const normed = await gpu.storage('final normed', maxLogitsRows * rowWords(hiddenSize) * 16);
  const shape = { columns: hiddenSize, epsilon, of: 'logits' } as const;
  const buffers = { step, input: hidden, weight: gain, output: normed };
  const norm: RowsKernel =
    kind === 'layer'
      ? await LayerNorm.create(gpu, shape, { ...buffers, bias: bias! })
      : await RmsNorm.create(gpu, shape, buffers);
  return { norm, normed };
}

async function createHead(
  gpu: Gpu,
  { vocabSize, logitsScale, logitsCap }: DecoderConfig,
  matrix: WeightMatrix,
  normed: GPUBuffer,
  { step, maxLogitsRows }: DecoderPlace,
): Promise<Head> {
  // A tile is what one matrix-vector product takes: the head's weights are read once for it.
  const tileRows = Math.min(MATVEC_COLUMNS.at(-1)!, maxLogitsRows);
  const logits = await gpu.storage('logits', tileRows * vocabSize * 4);
  const tiles = await Promise.all(
    Array.from({ length: Math.ceil(maxLogitsRows / tileRows) }, (_, tile) =>
      Linear.create(
        gpu,
        matrix,
        {
          outputStride: vocabSize,
          countWord: STEP_HEADER.logits,
          firstColumn: tile * tileRows,
          mostColumns: tileRows,
          finish: { kind: 'store', scale: logitsScale, cap: logitsCap },
        },
        { step, input: normed, output: logits },
      ),
    ),
  );
  return { tiles, tileRows, logits };
}
