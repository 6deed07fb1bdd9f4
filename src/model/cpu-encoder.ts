import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { activationReference } from '../gpu/activation.reference.ts';
import { poolReference } from '../gpu/pool.reference.ts';
import type { PoolKind } from '../gpu/pool.ts';
import type { EmbedSequence } from './embed-runner.ts';
import type { EncoderConfig } from './encoder-config.ts';
import type { DenseName, EncoderNames, LayerNormName } from './encoder-names.ts';
import { encoderPositions } from './encoder-positions.ts';
import { type EncoderTensorReader, encoderTensors } from './encoder-tensors.ts';

type Rows = Float64Array<ArrayBuffer>[];

interface Dense {
  readonly weight: Float32Array;
  readonly bias: Float32Array;
}

/** An encoder of the BERT family on the CPU, in float64: what the GPU's is held against. */
export class CpuEncoder {
  readonly #config: EncoderConfig;
  readonly #names: EncoderNames;
  readonly #tensors: EncoderTensorReader;

  constructor(config: EncoderConfig, names: EncoderNames, checkpoint: Checkpoint) {
    this.#config = config;
    this.#names = names;
    this.#tensors = encoderTensors(checkpoint);
  }

  /** Hidden states of a sequence's positions after the last layer, [ids][hiddenSize]. */
  async lastHidden({ ids, typeIds }: EmbedSequence): Promise<Rows> {
    const { hiddenSize, vocabSize, positions, tokenTypes, layers } = this.#config;
    const names = this.#names;
    const words = await this.#tensors.table(names.words, vocabSize, hiddenSize);
    const places = await this.#tensors.table(names.positions, positions, hiddenSize);
    const types = await this.#tensors.table(names.types, tokenTypes, hiddenSize);
    const placeOf = encoderPositions(ids, this.#config.positionPad);
    const embedded = Array.from({ length: ids.length }, (_, row) =>
      Float64Array.from(
        { length: hiddenSize },
        (_, i) =>
          words[ids[row]! * hiddenSize + i]! +
          types[(typeIds?.[row] ?? 0) * hiddenSize + i]! +
          places[placeOf[row]! * hiddenSize + i]!,
      ),
    );
    let hidden = await this.#norm(names.embeddingNorm, embedded);
    for (let layer = 0; layer < layers; layer++) hidden = await this.#layer(layer, hidden);
    return hidden;
  }

  /** The vector, or the logits of a classifier. */
  async embed(sequence: EmbedSequence, kind: PoolKind, normalised: boolean): Promise<Float64Array<ArrayBuffer>> {
    const { hiddenSize, classifier } = this.#config;
    const hidden = await this.lastHidden(sequence);
    if (classifier) {
      const { dense, output } = this.#names.classifier!;
      const [pooled] = await this.pooler(dense, hidden);
      const [logits] = product([pooled!], await this.#dense(output, classifier.labels.length, hiddenSize));
      return logits!;
    }
    const pooled = poolReference(
      hidden.flatMap((row) => [...row]),
      hiddenSize,
      kind,
    );
    const length = normalised ? Math.max(Math.hypot(...pooled), 1e-12) : 1;
    return pooled.map((value) => value / length);
  }

  /** tanh of a product of the first position. */
  async pooler(name: DenseName, [first]: Rows): Promise<Rows> {
    const { hiddenSize } = this.#config;
    return product([first!], await this.#dense(name, hiddenSize, hiddenSize)).map((row) => row.map(Math.tanh));
  }

  async #layer(index: number, hidden: Rows): Promise<Rows> {
    const { hiddenSize, intermediateSize } = this.#config;
    const names = this.#names.layer(index);
    const dense = (name: DenseName) => this.#dense(name, hiddenSize, hiddenSize);
    const [query, key, value] = await Promise.all([names.query, names.key, names.value].map(dense));
    const attended = this.#attend(product(hidden, query!), product(hidden, key!), product(hidden, value!));
    const output = product(attended, await dense(names.attentionOutput));
    const between = await this.#norm(names.attentionNorm, sum(hidden, output));
    const up = product(between, await this.#dense(names.up, intermediateSize, hiddenSize));
    const activated = up.map((row) => row.map((x) => activationReference(this.#config.activation, x)));
    const down = product(activated, await this.#dense(names.down, hiddenSize, intermediateSize));
    return this.#norm(names.outputNorm, sum(between, down));
  }

  #attend(query: Rows, key: Rows, value: Rows): Rows {
    const { heads, headSize, hiddenSize } = this.#config;
    return query.map((q) => {
      const attended = new Float64Array(hiddenSize);
      for (let head = 0; head < heads; head++) {
        const at = head * headSize;
        const scores = key.map((k) => {
          let product = 0;
          for (let d = at; d < at + headSize; d++) product += q[d]! * k[d]!;
          return product / Math.sqrt(headSize);
        });
        const high = scores.reduce((a, b) => Math.max(a, b));
        const weights = scores.map((score) => Math.exp(score - high));
        const total = weights.reduce((a, b) => a + b, 0);
        weights.forEach((weight, row) => {
          for (let d = at; d < at + headSize; d++) attended[d]! += (weight / total) * value[row]![d]!;
        });
      }
      return attended;
    });
  }

  async #norm(name: LayerNormName, rows: Rows): Promise<Rows> {
    const { hiddenSize, normEpsilon } = this.#config;
    const gain = await this.#tensors.vector(name.weight, hiddenSize);
    const bias = await this.#tensors.vector(name.bias, hiddenSize);
    return rows.map((row) => {
      const mean = row.reduce((a, b) => a + b, 0) / hiddenSize;
      const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / hiddenSize;
      return row.map((x, i) => ((x - mean) / Math.sqrt(variance + normEpsilon)) * gain[i]! + bias[i]!);
    });
  }

  async #dense(name: DenseName, rows: number, columns: number): Promise<Dense> {
    const weight = await this.#tensors.table(name.weight, rows, columns);
    return { weight, bias: await this.#tensors.vector(name.bias, rows) };
  }
}

function product(rows: Rows, { weight, bias }: Dense): Rows {
  return rows.map((row) =>
    Float64Array.from(bias, (start, i) => {
      let total = start;
      for (let k = 0; k < row.length; k++) total += weight[i * row.length + k]! * row[k]!;
      return total;
    }),
  );
}

function sum(a: Rows, b: Rows): Rows {
  return a.map((row, r) => row.map((x, i) => x + b[r]![i]!));
}
