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
import { adaptedProduct, type LayerAdapters, productInOrder, type SiteAdapters } from './site-adapters.ts';

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
  readonly attention: Attention;
  readonly #plain: AroundAttention;
  readonly #adapt: (adapters: LayerAdapters) => Promise<AroundAttention>;
  /** What is encoded where some row has an adapter, once there are any. */
  #adapted: AroundAttention | undefined;

  private constructor(
    kvCopy: KvCopy,
    attention: Attention,
    plain: AroundAttention,
    adapt: (adapters: LayerAdapters) => Promise<AroundAttention>,
  ) {
    this.kvCopy = kvCopy;
    this.attention = attention;
    this.#plain = plain;
    this.#adapt = adapt;
  }

  static async create(
    gpu: Gpu,
    config: DecoderConfig,
    index: number,
    weights: DecoderLayerWeights,
    place: LayerPlace,
  ): Promise<DecoderLayer> {
    const { stream, scratch, kv, attentionParts } = place;
    const { step } = stream;
    const heads = config.layers[index]!.attention;
    const { kvHeads, headSize } = heads;
    const shape = { ...attentionShape(heads), tableWord: FIRST_TABLE_WORD + kv.group };
    const { query, attended } = scratch;
    const around = (adapters?: LayerAdapters) => aroundAttention(gpu, config, index, weights, place, adapters);
    const [kvCopy, attention, plain] = await Promise.all([
      KvCopy.create(
        gpu,
        blockBytes({ layers: [], kvHeads, headSize, format: shape.kvFormat }),
        { step, kv: kv.buffer },
        kv.group,
      ),
      Attention.create(gpu, shape, { step, query, kv: kv.buffer, parts: attentionParts, output: attended }),
      around(),
    ]);
    return new DecoderLayer(kvCopy, attention, plain, around);
  }

  /** From here on rows may have adapters. */
  async adapt(adapters: LayerAdapters): Promise<void> {
    this.#adapted = await this.#adapt(adapters);
  }

  /** `adapted`: some row has an adapter. */
  encode(pass: GPUComputePassEncoder, rows: number, work: AttentionWork, adapted: boolean): void {
    if (adapted && !this.#adapted) throw new Error('no adapter was loaded');
    const { before, after } = adapted ? this.#adapted! : this.#plain;
    for (const kernel of before) kernel.encode(pass, rows);
    this.attention.encode(pass, work);
    for (const kernel of after) kernel.encode(pass, rows);
  }
}

/** A layer's kernels but for attention itself. */
interface AroundAttention {
  readonly before: readonly RowsKernel[];
  readonly after: readonly RowsKernel[];
}

async function aroundAttention(
  gpu: Gpu,
  config: DecoderConfig,
  index: number,
  weights: DecoderLayerWeights,
  place: LayerPlace,
  adapters: LayerAdapters | undefined,
): Promise<AroundAttention> {
  const { stream, scratch, nextNorm } = place;
  const { feedForward, residualScale: scale } = config.layers[index]!;
  const reader = await stream.reader(weights.attentionNorm);
  const [before, attentionOutput, network] = await Promise.all([
    queryKeyValue(gpu, config, index, weights, place, reader, adapters?.qkv),
    stream.adder(weights.attentionOutput, scratch.attended, {
      ...{ scale, outputNorm: weights.attentionOutputNorm, next: weights.feedForwardNorm },
      adapters: adapters?.attentionOutput,
    }),
    createFeedForward(gpu, feedForward, weights.feedForward, {
      ...{ stream, scratch, norm: weights.feedForwardNorm, adapters: adapters?.up },
      add: { scale, outputNorm: weights.feedForwardOutputNorm, next: nextNorm, adapters: adapters?.down },
    }),
  ]);
  return { before: [...reader.kernels, ...before], after: [...attentionOutput, network] };
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
  adapters: SiteAdapters | undefined,
): Promise<readonly RowsKernel[]> {
  const { heads, kvHeads, headSize, rope, qkvBias, qkNorm } = config.layers[index]!.attention;
  const table = rope === undefined ? undefined : tables[rope];
  const shape = { heads, kvHeads, headSize, tableWord: FIRST_TABLE_WORD + kv.group };
  const { step } = stream;
  if (qkv.paired) {
    const columns = heads * headSize;
    const finish = { kind: 'rotate', ...shape, table, kv: kv.buffer } as const;
    if (!adapters) return [await reader.product(qkv, scratch.query, columns, finish)];
    return adaptedProduct(gpu, adapters, step, reader, { matrix: qkv, output: scratch.query, columns, finish });
  }
  const both = scratch.qkv!;
  return Promise.all([
    ...productInOrder(gpu, step, reader, qkv, both, adapters),
    Rope.create(
      gpu,
      {
        ...shape,
        kvFormat: 'f32',
        rotated: rope === undefined ? 0 : config.ropes[rope]!.rotated,
        biased: qkvBias,
        qkNorm: qkNorm && { of: qkNorm, epsilon: config.norm.epsilon },
      },
      { step, qkv: both, table, query: scratch.query, kv: kv.buffer, more: qkvMore },
    ),
  ]);
}
