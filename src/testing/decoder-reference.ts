import type { Activation } from '../gpu/activation.ts';
import type { AttentionConfig, DecoderConfig, FeedForwardConfig, RopeConfig } from '../model/decoder-config.ts';
import type { Norm, Product, ReferenceLayer, ReferenceWeights } from './decoder-reference-weights.ts';

type Row = Float64Array;
type Rows = readonly Row[];

/** What the reference computes for one sequence. */
export interface ReferenceOutput {
  /** [positions][vocabulary] */
  readonly logits: Rows;
  /** [positions][hidden], after the final norm */
  readonly lastHidden: Rows;
}

/**
 * A decoder as plainly as it can be written: float64, one sequence, all positions anew. Slow. Nothing of it is shared
 * with what it is there to hold the kernels against.
 */
export function referenceDecoder(
  config: DecoderConfig,
  weights: ReferenceWeights,
  ids: readonly number[],
): ReferenceOutput {
  const { hiddenSize, vocabSize, logitsCap } = config;
  let rows: Rows = ids.map((id, position) =>
    Float64Array.from({ length: hiddenSize }, (_, i) => {
      const embedded = weights.embedding[id * hiddenSize + i]! * config.embeddingScale;
      return embedded + (weights.positions?.[position * hiddenSize + i] ?? 0);
    }),
  );
  for (const layer of weights.layers) rows = decoderLayer(config, layer, rows);
  const lastHidden = rows.map((row) => norm(config, weights.finalNorm, row));
  const head: Product = { rows: vocabSize, columns: hiddenSize, weight: weights.head };
  const logits = lastHidden.map((row) =>
    product(head, row).map((value) => {
      const scaled = value * config.logitsScale;
      return logitsCap === undefined ? scaled : logitsCap * Math.tanh(scaled / logitsCap);
    }),
  );
  return { logits, lastHidden };
}

function decoderLayer(config: DecoderConfig, layer: ReferenceLayer, rows: Rows): Rows {
  const { attention, feedForward, residualScale } = layer.config;
  const before = (weights: Norm | undefined, row: Row) => (weights ? norm(config, weights, row) : row);
  const add = (to: Rows, what: Rows) => to.map((row, r) => row.map((value, i) => value + residualScale * what[r]![i]!));

  const attended = attend(
    config,
    attention,
    layer,
    rows.map((row) => before(layer.attentionNorm, row)),
  );
  const between = add(
    rows,
    attended.map((row) => before(layer.attentionOutputNorm, row)),
  );
  const fed = between.map((row) => feed(feedForward, layer, before(layer.feedForwardNorm, row)));
  return add(
    between,
    fed.map((row) => before(layer.feedForwardOutputNorm, row)),
  );
}

function attend(config: DecoderConfig, attention: AttentionConfig, layer: ReferenceLayer, rows: Rows): Rows {
  const { heads, kvHeads, headSize, scale, window, cap, rope, qkNorm } = attention;
  const prepare = (weights: Product, normWeights: Norm | undefined, count: number) =>
    rows.map((row, position) => {
      const all = product(weights, row);
      const normed = qkNorm === 'row' ? norm(config, normWeights!, all) : all;
      return Array.from({ length: count }, (_, head) => {
        const own = normed.slice(head * headSize, (head + 1) * headSize);
        const each = qkNorm === 'head' ? norm(config, normWeights!, own) : own;
        return rope === undefined ? each : rotate(config.ropes[rope]!, each, position);
      });
    });
  const queries = prepare(layer.query, layer.queryNorm, heads);
  const keys = prepare(layer.key, layer.keyNorm, kvHeads);
  const values = rows.map((row) => product(layer.value, row));
  return rows.map((_, position) => {
    const first = window === undefined ? 0 : Math.max(0, position - window + 1);
    const result = new Float64Array(heads * headSize);
    for (let head = 0; head < heads; head++) {
      const kvHead = Math.floor(head / (heads / kvHeads));
      const scores = Array.from({ length: position + 1 - first }, (_, k) => {
        const score = scale * dot(queries[position]![head]!, keys[first + k]![kvHead]!);
        return cap === undefined ? score : cap * Math.tanh(score / cap);
      });
      for (const [k, weight] of softmax(scores).entries()) {
        for (let i = 0; i < headSize; i++) {
          result[head * headSize + i]! += weight * values[first + k]![kvHead * headSize + i]!;
        }
      }
    }
    return product(layer.attentionOutput, result);
  });
}

/** Number j of the rotated ones turns with number j + rotated / 2. */
function rotate({ rotated, frequencies, factor }: RopeConfig, head: Row, position: number): Row {
  const half = rotated / 2;
  return head.map((value, i) => {
    if (i >= rotated) return value;
    const angle = position * frequencies[i % half]!;
    const other = i < half ? -head[i + half]! : head[i - half]!;
    return factor * (value * Math.cos(angle) + other * Math.sin(angle));
  });
}

function feed(config: FeedForwardConfig, layer: ReferenceLayer, row: Row): Row {
  const { feedForward } = layer;
  const apply = activations[config.activation];
  const through = (gate: Product | undefined, up: Product, down: Product): Row => {
    const raised = product(up, row);
    if (!gate) return product(down, raised.map(apply));
    const gated = product(gate, row);
    return product(
      down,
      raised.map((value, i) => value * apply(gated[i]!)),
    );
  };
  if (feedForward.kind !== 'experts') return through(feedForward.gate, feedForward.up, feedForward.down);
  if (config.kind !== 'experts') throw new Error(`the config's feed-forward network is ${config.kind}`);
  const probabilities = softmax([...product(feedForward.router, row)]);
  // The first of equal ones; sort is stable.
  const chosen = probabilities
    .map((p, expert) => ({ p, expert }))
    .sort((a, b) => b.p - a.p)
    .slice(0, config.chosen);
  const sum = config.normalised ? chosen.reduce((total, { p }) => total + p, 0) : 1;
  const result = new Float64Array(row.length);
  for (const { p, expert } of chosen) {
    const { gate, up, down } = feedForward.experts[expert]!;
    through(gate, up, down).forEach((value, i) => {
      result[i]! += (p / sum) * value;
    });
  }
  return result;
}

const activations: Readonly<Record<Activation, (x: number) => number>> = {
  silu: (x) => x / (1 + Math.exp(-x)),
  relu: (x) => Math.max(0, x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  'gelu-tanh': (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

/** By the series 2/√π e^(−x²) Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1)), whose terms all have one sign. */
export function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

function norm({ norm: { kind, epsilon, gainOffset } }: DecoderConfig, weights: Norm, row: Row): Row {
  const mean = kind === 'layer' ? sumOf(row) / row.length : 0;
  const variance = sumOf(row.map((value) => (value - mean) ** 2)) / row.length;
  return row.map(
    (value, i) =>
      ((value - mean) / Math.sqrt(variance + epsilon)) * (weights.weight[i]! + gainOffset) + (weights.bias?.[i] ?? 0),
  );
}

function product({ rows, columns, weight, bias }: Product, row: Row): Row {
  return Float64Array.from({ length: rows }, (_, r) => {
    let sum = bias?.[r] ?? 0;
    for (let c = 0; c < columns; c++) sum += weight[r * columns + c]! * row[c]!;
    return sum;
  });
}

function softmax(scores: readonly number[]): number[] {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

const dot = (a: Row, b: Row) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
const sumOf = (row: Row) => row.reduce((sum, value) => sum + value, 0);
