import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import type { ModelAbout, TensorCount } from '../checkpoint/model-about.ts';
import { splitItemBytes } from '../gpu/attention.ts';
import { QUANTISED_FORMATS } from '../gpu/quantise.ts';
import { SPLIT_KEYS } from '../gpu/step-layout.ts';
import { type MatrixFormat, TILE_ROWS, tileBytes, type WeightFormat } from '../gpu/weight-format.ts';
import { ggmlQuantFormat, isGgmlQuantType } from '../model/ggml-quants.ts';
import { BLOCK_TOKENS } from '../model/runner.ts';
import type { EngineBudget } from './engine-budget.ts';
import { MAX_ROWS } from './engine-defaults.ts';
import type { MemoryEstimate } from './memory-facts.ts';

const FLOATS: Readonly<Record<string, WeightFormat>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };
const BLOCK_COLUMNS = 32;
/** Attention's split form at most. */
const SPLIT_BYTES = 16 << 20;
/** Of a tile, and of what a draw keeps beside them. */
const LOGITS_ROWS = 5 * 8;
/** Results on their way to the host, and the like. */
const FIXED_BYTES = 2.5 * 2 ** 20;

/** What a model will take of the GPU, before anything of it is read; undefined where that isn't told. */
export function estimateMemory(
  { config, tensors }: ModelAbout,
  quantisation: ManifestQuantisation,
  { kvBytes, maxRunning }: EngineBudget,
): MemoryEstimate | undefined {
  if (tensors === undefined) return undefined;
  const size = (key: string, otherwise = 0) =>
    Number.isSafeInteger(config[key]) ? (config[key] as number) : otherwise;
  const hidden = size('hidden_size');
  const heads = size('num_attention_heads', 1);
  const kvHeads = size('num_key_value_heads', heads);
  const headSize = size('head_dim', hidden / heads);
  const vocabulary = size('vocab_size');
  const context = size('max_position_embeddings');
  const tokenBytes = size('num_hidden_layers') * 2 * kvHeads * headSize * 4;
  const mostTokens = maxRunning * Math.ceil(context / BLOCK_TOKENS) * BLOCK_TOKENS;
  const poolTokens = tokenBytes === 0 ? 0 : Math.min(mostTokens, Math.floor(kvBytes / tokenBytes));
  const rows = Math.max(MAX_ROWS, maxRunning);
  // Residual stream, norms' input, q, k and v, attention's output, gate and up.
  const columns = 4 * hidden + (2 * heads + 2 * kvHeads) * headSize + 2 * size('intermediate_size');
  const positions = Math.min(context, poolTokens);
  const splitBytes = maxRunning * Math.ceil(positions / SPLIT_KEYS) * splitItemBytes({ heads, headSize });
  // Ids counted, biased, told and masked.
  const slotWords =
    2 * Math.min(vocabulary, positions) + 2 * Math.min(vocabulary, 4096) + Math.min(vocabulary, 1024) + vocabulary / 16;
  return {
    weightBytes: tensors.reduce((sum, tensor) => sum + tensor.count * tensorBytes(tensor, quantisation), 0),
    kvBytes: poolTokens * tokenBytes,
    scratchBytes:
      FIXED_BYTES +
      Math.min(SPLIT_BYTES, splitBytes) +
      4 * (rows * columns + LOGITS_ROWS * vocabulary + positions * headSize + maxRunning * slotWords),
  };
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
