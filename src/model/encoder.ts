import type { AttentionWork } from '../gpu/attention.ts';
import { EncoderEmbedding } from '../gpu/encoder-embedding.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { LayerNorm } from '../gpu/layer-norm.ts';
import { Linear } from '../gpu/linear.ts';
import { Pool, type PoolKind } from '../gpu/pool.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { EncoderConfig } from './encoder-config.ts';
import { allocateEncoderActivations, EncoderLayer } from './encoder-layer.ts';
import type { EncoderWeights, HeadProduct } from './encoder-weights.ts';

export interface EncoderScratch {
  /** Metadata of the step. */
  readonly step: GPUBuffer;
  /** [maxRows, 4] u32; see EncoderEmbeddingBuffers. */
  readonly rows: GPUBuffer;
  readonly maxRows: number;
  readonly maxSequences: number;
  /** Of keys and values of one layer. */
  readonly kvBytes: number;
}

/** The forward step of an encoder of the BERT family (Devlin et al., 2018), with pooling or a classifier, composed of kernels. */
export class Encoder {
  /** [maxRows, stride] f32: hidden states after the last layer. */
  readonly hidden: GPUBuffer;
  /** [maxSequences, outputStride] f32: a vector or logits of each sequence. */
  readonly output: GPUBuffer;
  readonly outputStride: number;
  readonly #embedding: EncoderEmbedding;
  readonly #norm: LayerNorm;
  readonly #layers: readonly EncoderLayer[];
  readonly #pool: Pool;
  readonly #head: readonly Linear[];

  private constructor(
    [hidden, output]: readonly [GPUBuffer, GPUBuffer],
    outputStride: number,
    [embedding, norm, layers]: readonly [EncoderEmbedding, LayerNorm, readonly EncoderLayer[]],
    pool: Pool,
    head: readonly Linear[],
  ) {
    this.hidden = hidden;
    this.output = output;
    this.outputStride = outputStride;
    this.#embedding = embedding;
    this.#norm = norm;
    this.#layers = layers;
    this.#pool = pool;
    this.#head = head;
  }

  /** A classifier takes the first position, whatever `pooling` says. */
  static async create(
    gpu: Gpu,
    config: EncoderConfig,
    weights: EncoderWeights,
    pooling: PoolKind,
    { step, rows, maxRows, maxSequences, kvBytes }: EncoderScratch,
  ): Promise<Encoder> {
    const { hiddenSize, normEpsilon } = config;
    const activations = await allocateEncoderActivations(gpu, config, maxRows, kvBytes);
    const { hidden, between } = activations;
    const sizes = [hiddenSize, ...weights.head.map(({ matrix }) => matrix.rows)];
    const buffers = await Promise.all(
      sizes.map(async (size, i) => {
        const stride = 4 * rowWords(size);
        return { buffer: await gpu.storage(`pooled ${i}`, maxSequences * stride * 4), stride };
      }),
    );
    const { buffer: output, stride: outputStride } = buffers.at(-1)!;
    const { weight, bias } = weights.embeddingNorm;
    const kind = config.classifier ? 'cls' : pooling;
    const [embedding, norm, pool, head, ...layers] = await Promise.all([
      EncoderEmbedding.create(gpu, weights.words, {
        ...{ step, rows, types: weights.types, positions: weights.positions },
        output: between,
      }),
      LayerNorm.create(
        gpu,
        { columns: hiddenSize, epsilon: normEpsilon, of: 'rows' },
        { step, input: between, weight, bias, output: hidden },
      ),
      Pool.create(gpu, hiddenSize, kind, { step, input: hidden, output: buffers[0]!.buffer }),
      createHead(gpu, weights.head, step, buffers),
      ...weights.layers.map((layer) => EncoderLayer.create(gpu, config, layer, activations, step)),
    ]);
    return new Encoder([hidden, output], outputStride, [embedding, norm, layers], pool, head);
  }

  encode(pass: GPUComputePassEncoder, rows: number, sequences: number, work: AttentionWork): void {
    this.#embedding.encode(pass, rows);
    this.#norm.encode(pass, rows);
    for (const layer of this.#layers) layer.encode(pass, rows, work);
    this.#pool.encode(pass, sequences);
    for (const product of this.#head) product.encode(pass, sequences);
  }
}

/** Products of sequences' vectors, each from one buffer into the next. */
function createHead(
  gpu: Gpu,
  products: readonly HeadProduct[],
  step: GPUBuffer,
  buffers: readonly { readonly buffer: GPUBuffer; readonly stride: number }[],
): Promise<readonly Linear[]> {
  return Promise.all(
    products.map(({ matrix, bias, tanh }, i) => {
      const { buffer: output, stride: outputStride } = buffers[i + 1]!;
      return Linear.create(
        gpu,
        matrix,
        {
          outputStride,
          countWord: STEP_HEADER.sequences,
          finish: { kind: 'store', bias, ...(tanh ? { cap: 1 } : {}) },
        },
        { step, input: buffers[i]!.buffer, output },
      );
    }),
  );
}
