import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { splitItemBytes } from '../gpu/attention.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { stepWords } from '../gpu/pack-step.ts';
import { SPLIT_KEYS } from '../gpu/step-layout.ts';
import { allLayerSites } from './adapter-sites.ts';
import { Decoder } from './decoder.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { type DecoderRange, loadDecoderWeights } from './decoder-weights.ts';
import { anyAttention, type DecoderDescription } from './describe-decoder.ts';
import {
  blockBytes,
  kvGroupLimits,
  kvGroupOf,
  kvGroups,
  poolBlocks,
  servedPositions,
  stepCapacity,
} from './kv-layout.ts';
import { type LoadOptions, runnerLimits } from './load-options.ts';
import type { RunnerLimits } from './runner.ts';

/** Scratch that attention's split form may take. */
const SPLIT_SCRATCH_BYTES = 16 << 20;

/** What a decoder's steps can take, and the room that follows from it. */
export interface DecoderRoom {
  readonly limits: RunnerLimits;
  /** Layers' KV: which group each is of, and its buffer's bytes. */
  readonly kv: readonly { readonly group: number; readonly bytes: number }[];
  readonly splitItems: number;
}

/** A decoder on a GPU with its KV pool, which steps can be packed for. */
export interface PlacedDecoder {
  readonly model: Decoder;
  /** Metadata of the step; holds the largest one. */
  readonly step: GPUBuffer;
  /** Splits that attention's scratch holds; none before there is a kernel for them. */
  readonly splitItems: () => number;
  readonly weightBytes: number;
  readonly kvBytes: number;
}

export interface PlaceOptions extends Pick<DecoderRange, 'headless'> {
  readonly quantisation?: LoadOptions['quantisation'] | undefined;
  readonly onProgress?: LoadOptions['onProgress'] | undefined;
  /** [maxSequences] u32: the id each slot drew last. */
  readonly lastIds: GPUBuffer;
}

/** Throws RangeError naming the option. */
export function decoderRoom(config: DecoderConfig, options: LoadOptions, bindingLimit: number): DecoderRoom {
  const groups = kvGroups(config, Math.min(options.contextLength ?? config.contextLength, config.contextLength));
  const blocks = poolBlocks(groups, options, bindingLimit);
  const limits = runnerLimits(config, options, kvGroupLimits(groups, blocks));
  const positions = servedPositions(limits.kvGroups, limits.contextLength);
  const splits = Math.min(
    Math.floor(SPLIT_SCRATCH_BYTES / splitItemBytes(anyAttention(config))),
    limits.maxSequences * Math.ceil(positions / SPLIT_KEYS),
  );
  const kv = config.layers.map((_, layer) => {
    const group = kvGroupOf(groups, layer);
    return { group, bytes: blocks[group]! * blockBytes(groups[group]!) };
  });
  return { limits, kv, splitItems: Math.max(1, splits) };
}

/** Allocates KV and scratch, and loads the weights. Rejects with CheckpointError or AllocationError. */
export async function placeDecoder(
  gpu: Gpu,
  { config, names, textPart, checkpoint }: DecoderDescription & { readonly checkpoint: Checkpoint },
  { limits, kv: layers, splitItems }: DecoderRoom,
  { onProgress, quantisation, headless, lastIds }: PlaceOptions,
): Promise<PlacedDecoder> {
  const range = { from: 0, to: config.layers.length, headless };
  const start = performance.now();
  const [kv, step, attentionParts, weights] = await Promise.all([
    Promise.all(
      layers.map(async ({ group, bytes }, layer) => ({ group, buffer: await gpu.storage(`kv ${layer}`, bytes) })),
    ),
    gpu.storage('step', stepWords({ ...stepCapacity(limits), splitItems }) * 4),
    gpu.storage('attention parts', splitItems * splitItemBytes(anyAttention(config))),
    loadDecoderWeights(gpu, checkpoint, config, names, range, onProgress, quantisation),
  ]);
  performance.measure('load weights', { start });
  const { maxRows, maxLogitsRows, kvGroups, contextLength, maxAdapters = 0, maxAdapterRank = 0 } = limits;
  const model = await Decoder.create(gpu, config, weights, {
    ...{ step, lastIds, kv, maxRows, maxLogitsRows, attentionParts },
    positions: servedPositions(kvGroups, contextLength),
    adapters: { sites: allLayerSites(config, names), most: maxAdapters, maxRank: maxAdapterRank, textPart },
  });
  return {
    ...{ model, step, weightBytes: weights.bytes },
    splitItems: () => (model.splits ? splitItems : 0),
    kvBytes: layers.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}
