import { Attention, type AttentionWork } from '../gpu/attention.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { KvCopy } from '../gpu/kv-copy.ts';
import { Linear, type LinearFinish } from '../gpu/linear.ts';
import { squaresWords } from '../gpu/norm-input.ts';
import { Rope } from '../gpu/rope.ts';
import { rowWords } from '../gpu/row-words.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import { Swiglu } from '../gpu/swiglu.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { DecoderLayerWeights, DecoderWeights } from './decoder-weights.ts';
import { blockBytes } from './kv-layout.ts';
import type { LlamaConfig } from './llama-config.ts';

/** Buffers of activations, one a purpose: no dispatch may read and write one buffer. */
export interface Activations {
  /** The residual stream. */
  readonly hidden: GPUBuffer;
  /** It times the next norm's weights, and its squares summed; see shaders/norm-input.wgsl. */
  readonly scaled: GPUBuffer;
  readonly squares: GPUBuffer;
  readonly query: GPUBuffer;
  readonly attended: GPUBuffer;
  readonly gated: GPUBuffer;
  /** Of layers whose matrices aren't paired: q, k and v as their product leaves them; gate and up. */
  readonly qkv: GPUBuffer | undefined;
  readonly gateUp: GPUBuffer | undefined;
}

export async function allocateActivations(
  gpu: Gpu,
  config: LlamaConfig,
  weights: DecoderWeights,
  rows: number,
): Promise<Activations> {
  const allocate = (label: string, columns: number) => gpu.storage(label, rows * rowWords(columns) * 16);
  const queryColumns = config.heads * config.headSize;
  const plainQkv = weights.layers.some(({ qkv }) => !qkv.paired);
  const plainGateUp = weights.layers.some(({ gateUp }) => !gateUp.paired);
  const [hidden, scaled, squares, query, attended, gated, qkv, gateUp] = await Promise.all([
    allocate('hidden', config.hiddenSize),
    allocate('scaled', config.hiddenSize),
    allocate('squares', 4 * squaresWords(config.hiddenSize)),
    allocate('query', queryColumns),
    allocate('attended', queryColumns),
    allocate('gated', config.intermediateSize),
    plainQkv ? allocate('qkv', queryColumns + 2 * config.kvHeads * config.headSize) : undefined,
    plainGateUp ? allocate('gate | up', 2 * config.intermediateSize) : undefined,
  ]);
  return { hidden, scaled, squares, query, attended, gated, qkv, gateUp };
}

/** What a layer's kernels share. */
export interface LayerPlace {
  readonly step: GPUBuffer;
  readonly kv: GPUBuffer;
  /** Of ropeTable. */
  readonly table: GPUBuffer;
  readonly attentionParts: GPUBuffer;
  /** Weights of the norm that follows the layer, where one is loaded. */
  readonly nextNorm: GPUBuffer | undefined;
}

interface RowsKernel {
  encode(pass: GPUComputePassEncoder, rows: number): void;
}

/**
 * One layer: five kernels, six where attention is split. A matrix of several formats takes one for
 * each, and one more where its rows can't be paired. It finds the scaled rows and sums of squares of its input, and leaves those of its output.
 */
export class DecoderLayer {
  readonly kvCopy: KvCopy;
  readonly #before: readonly RowsKernel[];
  readonly attention: Attention;
  readonly #after: readonly RowsKernel[];

  private constructor(
    kvCopy: KvCopy,
    before: readonly RowsKernel[],
    attention: Attention,
    after: readonly RowsKernel[],
  ) {
    this.kvCopy = kvCopy;
    this.#before = before;
    this.attention = attention;
    this.#after = after;
  }

  static async create(
    gpu: Gpu,
    config: LlamaConfig,
    weights: DecoderLayerWeights,
    activations: Activations,
    { step, kv, table, attentionParts, nextNorm }: LayerPlace,
  ): Promise<DecoderLayer> {
    const { hidden, scaled, squares, query, attended, gated } = activations;
    const { heads, kvHeads, headSize, intermediateSize } = config;
    const shape = { heads, kvHeads, headSize, kvFormat: 'f32' } as const;
    const norm = { epsilon: config.normEpsilon, squares };
    /** A product of the residual stream's norm. */
    const ofNorm = (matrix: WeightMatrix, output: GPUBuffer, columns: number, finish: LinearFinish) =>
      Linear.create(
        gpu,
        matrix,
        { outputStride: 4 * rowWords(columns), countWord: STEP_HEADER.rows, finish, norm },
        { step, input: scaled, output },
      );
    /** A product that goes back into it, `gain` the weights of the norm that comes next. */
    const intoHidden = (matrix: WeightMatrix, input: GPUBuffer, gain: GPUBuffer | undefined) =>
      Linear.create(
        gpu,
        matrix,
        {
          outputStride: 4 * rowWords(config.hiddenSize),
          countWord: STEP_HEADER.rows,
          finish: gain ? { kind: 'emit', gain, scaled, squares } : { kind: 'add' },
        },
        { step, input, output: hidden },
      );
    const qkv = async (): Promise<RowsKernel[]> => {
      if (weights.qkv.paired) {
        const finish = { kind: 'rotate', heads, kvHeads, headSize, table, kv } as const;
        return [await ofNorm(weights.qkv, query, heads * headSize, finish)];
      }
      const both = activations.qkv!;
      return Promise.all([
        ofNorm(weights.qkv, both, weights.qkv.rows, { kind: 'store' }),
        Rope.create(gpu, shape, { step, qkv: both, table, query, kv }),
      ]);
    };
    const gateUp = async (): Promise<RowsKernel[]> => {
      if (weights.gateUp.paired) return [await ofNorm(weights.gateUp, gated, intermediateSize, { kind: 'gate' })];
      const both = activations.gateUp!;
      return Promise.all([
        ofNorm(weights.gateUp, both, weights.gateUp.rows, { kind: 'store' }),
        Swiglu.create(gpu, intermediateSize, { step, input: both, output: gated }),
      ]);
    };
    const [kvCopy, before, attention, attentionOutput, middle, down] = await Promise.all([
      KvCopy.create(gpu, blockBytes({ layers: [], kvHeads, headSize, format: shape.kvFormat }), { step, kv }),
      qkv(),
      Attention.create(gpu, shape, { step, query, kv, parts: attentionParts, output: attended }),
      intoHidden(weights.attentionOutput, attended, weights.feedForwardNorm),
      gateUp(),
      intoHidden(weights.down, gated, nextNorm),
    ]);
    return new DecoderLayer(kvCopy, before, attention, [attentionOutput, ...middle, down]);
  }

  encode(pass: GPUComputePassEncoder, rows: number, work: AttentionWork): void {
    for (const kernel of this.#before) kernel.encode(pass, rows);
    this.attention.encode(pass, work);
    for (const kernel of this.#after) kernel.encode(pass, rows);
  }
}
