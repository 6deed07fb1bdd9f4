import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import type { ModelAbout, TensorCount } from '../checkpoint/model-about.ts';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { splitItemBytes } from '../gpu/attention.ts';
import { QUANTISED_FORMATS } from '../gpu/quantise.ts';
import { SPLIT_KEYS } from '../gpu/step-layout.ts';
import { type MatrixFormat, TILE_ROWS, tileBytes, type WeightFormat } from '../gpu/weight-format.ts';
import { adapterBytes } from '../model/adapter-bytes.ts';
import { allLayerSites } from '../model/adapter-sites.ts';
import type { DecoderNames } from '../model/architecture.ts';
import type { DecoderConfig } from '../model/decoder-config.ts';
import { anyAttention, describeDecoder } from '../model/describe-decoder.ts';
import { mostEmbedderBlocks } from '../model/embedder-blocks.ts';
import type { EncoderConfig } from '../model/encoder-config.ts';
import { encoderLimits, encoderScratchBytes } from '../model/encoder-limits.ts';
import { findEncoder } from '../model/encoders.ts';
import { expertsBytes } from '../model/experts.ts';
import { ggmlQuantFormat, isGgmlQuantType } from '../model/ggml-quants.ts';
import { blockBytes, type KvGroup, kvGroupLimits, kvGroups, poolBlocks, servedPositions } from '../model/kv-layout.ts';
import { BLOCK_TOKENS } from '../model/runner.ts';
import type { EngineBudget } from './engine-budget.ts';
import { EMBED_ROWS, EMBED_SEQUENCES, MAX_ROWS } from './engine-defaults.ts';
import type { MemoryEstimate } from './memory-facts.ts';

const FLOATS: Readonly<Record<string, WeightFormat>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };
const BLOCK_COLUMNS = 32;
/** Attention's split form at most. */
const SPLIT_BYTES = 16 << 20;
/** Of a tile, and of what a draw keeps beside them. */
const LOGITS_ROWS = 5 * 8;
/** Results on their way to the host, and the like. */
const FIXED_BYTES = 2.5 * 2 ** 20;

/**
 * What a model will take of the GPU, before anything of it is read; undefined where that isn't told, or where its config
 * is not one that is served: who loads it says why.
 */
export function estimateMemory(
  { config: raw, tensors, task = 'generate' }: ModelAbout,
  quantisation: ManifestQuantisation,
  budget: EngineBudget,
): MemoryEstimate | undefined {
  if (tensors === undefined) return undefined;
  try {
    const config = parseModelConfig(JSON.stringify(raw), 'config.json');
    const encoder = findEncoder(config)?.readConfig(config);
    const weights = (counts: readonly TensorCount[]) =>
      counts.reduce((sum, tensor) => sum + tensor.count * tensorBytes(tensor, quantisation), 0);
    if (encoder) return { weightBytes: weights(tensors), kvBytes: 0, scratchBytes: encoderBytes(encoder, budget) };
    const { config: decoder, names } = describeDecoder(config);
    const weightBytes = weights(withoutTiedHead(tensors, decoder)) + unquantised(tensors, decoder, quantisation);
    const steps = task === 'generate' ? generationSteps(decoder, budget) : embeddingSteps(decoder, budget);
    return { weightBytes, ...decoderBytes(decoder, names, steps) };
  } catch (error) {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  }
}

/** A tied head may be stored too, and isn't loaded. */
function withoutTiedHead(tensors: readonly TensorCount[], { tiedHead, vocabSize, hiddenSize }: DecoderConfig) {
  const isHead = ({ shape }: TensorCount) => shape.join() === [vocabSize, hiddenSize].join();
  return tiedHead ? tensors.map((tensor) => (isHead(tensor) ? { ...tensor, count: 1 } : tensor)) : tensors;
}

/** What learned positions and routers, which are loaded as they are, take beyond what others of their shape do. */
function unquantised(
  tensors: readonly TensorCount[],
  { learnedPositions, hiddenSize, layers }: DecoderConfig,
  quantisation: ManifestQuantisation,
): number {
  const experts = layers.map(({ feedForward }) => (feedForward.kind === 'experts' ? feedForward.experts : undefined));
  const rows = new Set([learnedPositions, ...experts].filter((count) => count !== undefined));
  return tensors
    .filter(({ shape }) => shape.length === 2 && rows.has(shape[0]!) && shape[1] === hiddenSize)
    .reduce((sum, each) => sum + each.count * (tensorBytes(each, 'none') - tensorBytes(each, quantisation)), 0);
}

/** Activations of the ids that an embedder takes at once, within its budget; of a few where even these don't fit. */
function encoderBytes(encoder: EncoderConfig, { kvBytes }: EngineBudget): number {
  const least = encoderScratchBytes(encoder, 2 * BLOCK_TOKENS, EMBED_SEQUENCES);
  const sizes = { maxRows: EMBED_ROWS, maxSequences: EMBED_SEQUENCES, scratchBytes: Math.max(kvBytes, least) };
  const { maxRows, longest } = encoderLimits(encoder, sizes, Number.POSITIVE_INFINITY);
  return FIXED_BYTES + encoderScratchBytes(encoder, Math.max(maxRows, longest), EMBED_SEQUENCES);
}

/** What a decoder's steps have at most. */
interface DecoderSteps extends Pick<EngineBudget, 'kvBytes'> {
  readonly adapters?: EngineBudget['adapters'] | undefined;
  readonly rows: number;
  readonly sequences: number;
  readonly maxKvBlocks: number;
  /** Ids follow from logits; else hidden states are all that is wanted. */
  readonly draws: boolean;
}

function generationSteps(
  { contextLength }: DecoderConfig,
  { kvBytes, maxRunning, adapters }: EngineBudget,
): DecoderSteps {
  const maxKvBlocks = maxRunning * Math.ceil(contextLength / BLOCK_TOKENS);
  return { kvBytes, adapters, rows: Math.max(MAX_ROWS, maxRunning), sequences: maxRunning, maxKvBlocks, draws: true };
}

function embeddingSteps({ contextLength }: DecoderConfig, { kvBytes }: EngineBudget): DecoderSteps {
  const maxKvBlocks = mostEmbedderBlocks({ contextLength, maxRows: EMBED_ROWS, maxSequences: EMBED_SEQUENCES });
  return { kvBytes, rows: EMBED_ROWS, sequences: EMBED_SEQUENCES, maxKvBlocks, draws: false };
}

function decoderBytes(
  decoder: DecoderConfig,
  names: DecoderNames,
  { kvBytes, rows, sequences, maxKvBlocks, draws, adapters }: DecoderSteps,
): Pick<MemoryEstimate, 'kvBytes' | 'scratchBytes'> {
  const { hiddenSize, vocabSize, contextLength, layers } = decoder;
  const { heads, kvHeads, headSize } = anyAttention(decoder);
  const groups = kvGroups(decoder, contextLength);
  const pools = poolsWithin(groups, { kvBudgetBytes: kvBytes, maxKvBlocks, maxRows: rows, maxSequences: sequences });
  const poolBytes = groups.reduce((sum, group, g) => sum + pools[g]! * group.layers.length * blockBytes(group), 0);
  const positions = servedPositions(kvGroupLimits(groups, pools), contextLength);
  const splitBytes = sequences * Math.ceil(positions / SPLIT_KEYS) * splitItemBytes({ heads, headSize });
  const inner = layers.map(({ feedForward }) =>
    feedForward.kind === 'experts' ? expertsBytes(hiddenSize, feedForward, rows) : 4 * rows * 2 * feedForward.size,
  );
  // Residual stream, norms' input, q, k and v, attention's output.
  const columns = 4 * hiddenSize + (2 * heads + 2 * kvHeads) * headSize;
  // Ids counted, biased, told and masked.
  const drawnWords =
    LOGITS_ROWS * vocabSize +
    sequences *
      (2 * Math.min(vocabSize, positions) + 2 * Math.min(vocabSize, 4096) + Math.min(vocabSize, 1024) + vocabSize / 16);
  const ropeWords = decoder.ropes.reduce((sum, { rotated }) => sum + positions * rotated, 0);
  return {
    kvBytes: poolBytes,
    scratchBytes:
      FIXED_BYTES +
      Math.min(SPLIT_BYTES, splitBytes) +
      Math.max(...inner) +
      (adapters ? adapterBytes(allLayerSites(decoder, names), adapters, rows) : 0) +
      4 * (rows * columns + ropeWords + (draws ? drawnWords : 3 * sequences * hiddenSize)),
  };
}

/** Blocks of each pool; none where a budget has no room for one of each. */
function poolsWithin(groups: readonly KvGroup[], request: Parameters<typeof poolBlocks>[1]): readonly number[] {
  const least = groups.reduce((sum, group) => sum + group.layers.length * blockBytes(group), 0);
  if (request.kvBudgetBytes! < least) return groups.map(() => 0);
  return poolBlocks(groups, request, Number.POSITIVE_INFINITY);
}

function tensorBytes({ dtype, shape }: TensorCount, quantisation: ManifestQuantisation): number {
  const columns = shape.at(-1) ?? 1;
  const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  // Vectors are f32.
  if (shape.length < 2) return columns * 4;
  return Math.ceil(rows / TILE_ROWS) * tileBytes(formatOf(dtype, columns, quantisation), columns);
}

function formatOf(dtype: string, columns: number, quantisation: ManifestQuantisation): MatrixFormat {
  if (isGgmlQuantType(dtype)) return ggmlQuantFormat(dtype);
  if (quantisation !== 'none' && columns % BLOCK_COLUMNS === 0) return QUANTISED_FORMATS[quantisation];
  return FLOATS[dtype] ?? 'f32';
}
