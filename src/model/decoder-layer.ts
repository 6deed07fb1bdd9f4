import { Attention, type AttentionShape, type AttentionWork } from '../gpu/attention.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { KvCopy } from '../gpu/kv-copy.ts';
import { Rope } from '../gpu/rope.ts';
import { FIRST_TABLE_WORD } from '../gpu/step-layout.ts';
import type { AttentionConfig, DecoderConfig } from './decoder-config.ts';
import type { DecoderLayerWeights, NormWeights } from './decoder-weights.ts';
import { createFeedForward } from './feed-forward.ts';
import { blockBytes } from './kv-layout.ts';
import type { LayerScratch } from './layer-scratch.ts';
import type { ResidualStream, StreamReader } from './residual-stream.ts';
import type { RowsKernel } from './rows-kernel.ts';

/** Where a layer keeps keys and values. */
export interface LayerKv {
  /** [blocks, 2, kvHeads, 16, headSize] */
  readonly buffer: GPUBuffer;
  /** Its KV group, whose block tables it goes by. */
  readonly group: number;
}

/** What a layer's kernels share. */
export interface LayerPlace {
  readonly stream: ResidualStream;
  readonly scratch: LayerScratch;
  readonly kv: LayerKv;
  /** Of ropeTable, one for each of the config's ropes. */
  readonly tables: readonly GPUBuffer[];
  readonly attentionParts: GPUBuffer;
  /** The norm under which what follows the layer reads the stream, where it does and is loaded. */
  readonly nextNorm: NormWeights | undefined;
}

/**
 * One layer. Five kernels, six where attention is split, where norms are root mean squares on inputs, q and k are rotated whole without
 * biases and norms, and gate and up are of SiLU or GELU's tanh form; else one more for each of these. A matrix of several formats takes
 * one for each, and one more where its rows can't be paired.
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
    config: DecoderConfig,
    index: number,
    weights: DecoderLayerWeights,
    place: LayerPlace,
  ): Promise<DecoderLayer> {
    const { stream, scratch, kv, attentionParts, nextNorm } = place;
    const { step } = stream;
    const { attention: heads, feedForward, residualScale } = config.layers[index]!;
    const { kvHeads, headSize } = heads;
    const shape = { ...attentionShape(heads), tableWord: FIRST_TABLE_WORD + kv.group };
    const reader = await stream.reader(weights.attentionNorm);
    const { query, attended } = scratch;
    const [kvCopy, before, attention, attentionOutput, network] = await Promise.all([
      KvCopy.create(
        gpu,
        blockBytes({ layers: [], kvHeads, headSize, format: shape.kvFormat }),
        { step, kv: kv.buffer },
        kv.group,
      ),
      queryKeyValue(gpu, config, index, weights, place, reader),
      Attention.create(gpu, shape, { step, query, kv: kv.buffer, parts: attentionParts, output: attended }),
      stream.adder(weights.attentionOutput, attended, {
        scale: residualScale,
        outputNorm: weights.attentionOutputNorm,
        next: weights.feedForwardNorm,
      }),
      createFeedForward(gpu, feedForward, weights.feedForward, {
        ...{ stream, scratch, norm: weights.feedForwardNorm },
        add: { scale: residualScale, outputNorm: weights.feedForwardOutputNorm, next: nextNorm },
      }),
    ]);
    return new DecoderLayer(kvCopy, [...reader.kernels, ...before], attention, [...attentionOutput, network]);
  }

  encode(pass: GPUComputePassEncoder, rows: number, work: AttentionWork): void {
    for (const kernel of this.#before) kernel.encode(pass, rows);
    this.attention.encode(pass, work);
    for (const kernel of this.#after) kernel.encode(pass, rows);
  }
}

/** What attention's kernels are made for. */
export function attentionShape({ heads, kvHeads, headSize, scale, window, cap }: AttentionConfig): AttentionShape {
  return {
    ...{ heads, kvHeads, headSize, kvFormat: 'f32', scale },
    ...(window === undefined ? {} : { window }),
    ...(cap === undefined ? {} : { cap }),
  };
}

/** Queries where attention finds them, keys and values in their blocks. */
async function queryKeyValue(
  gpu: Gpu,
  config: DecoderConfig,
  index: number,
  { qkv, qkvMore }: DecoderLayerWeights,
  { stream, scratch, kv, tables }: LayerPlace,
  reader: StreamReader,
): Promise<readonly RowsKernel[]> {
  const { heads, kvHeads, headSize, rope, qkvBias, qkNorm } = config.layers[index]!.attention;
  const table = rope === undefined ? undefined : tables[rope];
  const shape = { heads, kvHeads, headSize, tableWord: FIRST_TABLE_WORD + kv.group };
  if (qkv.paired) {
    const finish = { kind: 'rotate', ...shape, table, kv: kv.buffer } as const;
    return [await reader.product(qkv, scratch.query, heads * headSize, finish)];
  }
  const both = scratch.qkv!;
  return Promise.all([
    reader.product(qkv, both, qkv.rows, { kind: 'store' }),
    Rope.create(
      gpu,
      {
        ...shape,
        kvFormat: 'f32',
        rotated: rope === undefined ? 0 : config.ropes[rope]!.rotated,
        biased: qkvBias,
        qkNorm: qkNorm && { of: qkNorm, epsilon: config.norm.epsilon },
      },
      { step: stream.step, qkv: both, table, query: scratch.query, kv: kv.buffer, more: qkvMore },
    ),
  ]);
}
