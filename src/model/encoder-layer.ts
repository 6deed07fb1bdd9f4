import { ActivateRows } from '../gpu/activate-rows.ts';
import { Attention, type AttentionWork } from '../gpu/attention.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { LayerNorm } from '../gpu/layer-norm.ts';
import { Linear, type LinearFinish } from '../gpu/linear.ts';
import { Rope } from '../gpu/rope.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { EncoderConfig } from './encoder-config.ts';
import type { EncoderLayerWeights, LayerNormWeights } from './encoder-weights.ts';
import type { RowsKernel } from './rows-kernel.ts';

/** Buffers of activations, one a purpose, which all layers share: no dispatch may read and write one buffer. */
export interface EncoderActivations {
  /** What a layer begins with and leaves. */
  readonly hidden: GPUBuffer;
  /** What attention leaves, normed; the feed-forward network adds to it. */
  readonly between: GPUBuffer;
  readonly qkv: GPUBuffer;
  readonly query: GPUBuffer;
  /** [blocks, 2, heads, 16, headSize]: keys and values of the layer that runs. */
  readonly kv: GPUBuffer;
  readonly attended: GPUBuffer;
  readonly up: GPUBuffer;
  readonly activated: GPUBuffer;
}

export async function allocateEncoderActivations(
  gpu: Gpu,
  { hiddenSize, intermediateSize }: EncoderConfig,
  rows: number,
  kvBytes: number,
): Promise<EncoderActivations> {
  const allocate = (label: string, columns: number) => gpu.storage(label, rows * rowWords(columns) * 16);
  const [hidden, between, qkv, query, kv, attended, up, activated] = await Promise.all([
    allocate('hidden', hiddenSize),
    allocate('between', hiddenSize),
    allocate('qkv', 3 * hiddenSize),
    allocate('query', hiddenSize),
    gpu.storage('kv', kvBytes),
    allocate('attended', hiddenSize),
    allocate('up', intermediateSize),
    allocate('activated', intermediateSize),
  ]);
  return { hidden, between, qkv, query, kv, attended, up, activated };
}

/**
 * One layer, normed after attention and after the feed-forward network: nine kernels. Keys and values lie in blocks of
 * scratch that every layer writes anew.
 */
export class EncoderLayer {
  readonly #before: readonly RowsKernel[];
  readonly #attention: Attention;
  readonly #after: readonly RowsKernel[];

  private constructor(before: readonly RowsKernel[], attention: Attention, after: readonly RowsKernel[]) {
    this.#before = before;
    this.#attention = attention;
    this.#after = after;
  }

  static async create(
    gpu: Gpu,
    config: EncoderConfig,
    weights: EncoderLayerWeights,
    activations: EncoderActivations,
    step: GPUBuffer,
  ): Promise<EncoderLayer> {
    const { hidden, between, qkv, query, kv, attended, up, activated } = activations;
    const { heads, headSize, hiddenSize, intermediateSize, normEpsilon } = config;
    const shape = { heads, kvHeads: heads, headSize, kvFormat: 'f32' } as const;
    const product = (matrix: WeightMatrix, input: GPUBuffer, output: GPUBuffer, finish: LinearFinish) =>
      Linear.create(
        gpu,
        matrix,
        { outputStride: 4 * rowWords(matrix.rows), countWord: STEP_HEADER.rows, finish },
        { step, input, output },
      );
    const norm = ({ weight, bias }: LayerNormWeights, input: GPUBuffer, output: GPUBuffer) =>
      LayerNorm.create(
        gpu,
        { columns: hiddenSize, epsilon: normEpsilon, of: 'rows' },
        { step, input, weight, bias, output },
      );
    const { matrix: qkvMatrix, bias: qkvBias } = weights.qkv;
    const [before, attention, after] = await Promise.all([
      Promise.all([
        product(qkvMatrix, hidden, qkv, { kind: 'store' }),
        // Nothing is rotated: it adds the biases, and puts keys and values where attention finds them.
        Rope.create(
          gpu,
          { ...shape, rotated: 0, biased: true },
          { step, qkv, table: undefined, query, kv, more: qkvBias },
        ),
      ]),
      Attention.create(gpu, { ...shape, bidirectional: true }, { step, query, kv, output: attended }),
      Promise.all([
        product(weights.attentionOutput.matrix, attended, hidden, { kind: 'add', bias: weights.attentionOutput.bias }),
        norm(weights.attentionNorm, hidden, between),
        product(weights.up.matrix, between, up, { kind: 'store' }),
        ActivateRows.create(
          gpu,
          { columns: intermediateSize, activation: config.activation, gated: false },
          { step, input: up, bias: weights.up.bias, output: activated },
        ),
        product(weights.down.matrix, activated, between, { kind: 'add', bias: weights.down.bias }),
        norm(weights.outputNorm, between, hidden),
      ]),
    ]);
    return new EncoderLayer(before, attention, after);
  }

  encode(pass: GPUComputePassEncoder, rows: number, work: AttentionWork): void {
    for (const kernel of this.#before) kernel.encode(pass, rows);
    this.#attention.encode(pass, work);
    for (const kernel of this.#after) kernel.encode(pass, rows);
  }
}
