import type { AnySource } from '../gpu/weight-matrix.ts';
import type { FeedForwardNames, LayerNames, MatrixName, ProductName } from './architecture.ts';
import type { DecoderConfig, ExpertsConfig, FeedForwardConfig } from './decoder-config.ts';
import type { DecoderTensors } from './decoder-tensors.ts';

/** The matrix of a product as its checkpoint's tensors, one below the other, and where its rows may lie in pairs. */
export interface ProductSources {
  readonly sources: readonly AnySource[];
  readonly columns: number;
  /** Rows r and r + half of each 2 · half are needed by one thread; absent: rows lie in order. */
  readonly half?: number;
}

/** Of dense networks: gate and up, or up alone, and down. */
export interface FeedForwardSources {
  readonly inner: ProductSources;
  readonly down: ProductSources;
}

/** Products of a layer's attention: those that share an input are fused into one. */
export interface AttentionSources {
  readonly qkv: ProductSources;
  readonly output: ProductSources;
}

/** What a layer's attention multiplies by. Throws CheckpointError. */
export function attentionSources(
  tensors: DecoderTensors,
  config: DecoderConfig,
  index: number,
  names: LayerNames,
): AttentionSources {
  const { hiddenSize } = config;
  const { heads, kvHeads, headSize } = config.layers[index]!.attention;
  const [queryRows, kvRows] = [heads * headSize, kvHeads * headSize];
  const matrix = ({ weight }: ProductName, rows: number) => tensors.matrix(weight, rows, hiddenSize);
  return {
    qkv: {
      sources: [matrix(names.query, queryRows), matrix(names.key, kvRows), matrix(names.value, kvRows)],
      columns: hiddenSize,
      ...(rotatesInProduct(config, index) ? { half: headSize / 2 } : {}),
    },
    output: { sources: [tensors.matrix(names.attentionOutput.weight, hiddenSize, queryRows)], columns: queryRows },
  };
}

/** What a dense feed-forward network multiplies by. Throws CheckpointError. */
export function feedForwardSources(
  tensors: DecoderTensors,
  hiddenSize: number,
  config: Exclude<FeedForwardConfig, { kind: 'experts' }>,
  names: FeedForwardNames,
): FeedForwardSources {
  const { size } = config;
  if (names.kind === 'experts') throw new Error('a dense network with the names of experts');
  const matrix = (name: MatrixName, rows: number, columns: number) => tensors.matrix(name, rows, columns);
  const inner =
    names.kind === 'gated'
      ? [matrix(names.gate.weight, size, hiddenSize), matrix(names.up.weight, size, hiddenSize)]
      : [matrix(names.up.weight, size, hiddenSize)];
  return {
    inner: { sources: inner, columns: hiddenSize, ...(gatesInProduct(config) ? { half: size } : {}) },
    down: { sources: [matrix(names.down.weight, hiddenSize, size)], columns: size },
  };
}

/** Of a mixture of experts: the router, and each expert's matrices. */
export interface ExpertSources {
  readonly router: AnySource;
  readonly experts: readonly { readonly gate: AnySource; readonly up: AnySource; readonly down: AnySource }[];
}

/** What a mixture of experts multiplies by. Throws CheckpointError. */
export function expertSources(
  tensors: DecoderTensors,
  hiddenSize: number,
  { experts, size }: ExpertsConfig,
  names: FeedForwardNames,
): ExpertSources {
  if (names.kind !== 'experts' || names.experts.length !== experts) {
    throw new Error(`${experts} experts with the names of a ${names.kind} network`);
  }
  return {
    // Small, and what it is off by would choose other experts.
    router: tensors.matrix(names.router, experts, hiddenSize, 'as it is'),
    experts: names.experts.map(({ gate, up, down }) => ({
      gate: tensors.matrix(gate, size, hiddenSize),
      up: tensors.matrix(up, size, hiddenSize),
      down: tensors.matrix(down, hiddenSize, size),
    })),
  };
}

/** Whether a layer's q, k, v can come out of their product as attention takes them, where their rows can be paired. */
function rotatesInProduct({ layers, ropes }: DecoderConfig, index: number): boolean {
  const { qkvBias, qkNorm, rope, headSize } = layers[index]!.attention;
  return !qkvBias && qkNorm === undefined && (rope === undefined || ropes[rope]!.rotated === headSize);
}

/** Whether gate and up can come out of their product as down takes them, where their rows can be paired. */
function gatesInProduct(config: Exclude<FeedForwardConfig, { kind: 'experts' }>): boolean {
  const { kind, activation, bias } = config;
  return kind === 'gated' && !bias && (activation === 'silu' || activation === 'gelu-tanh');
}
