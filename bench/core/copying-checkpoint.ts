import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type { ModelConfig } from '../../src/checkpoint/model-config.ts';
import { describeDecoder } from '../../src/model/describe-decoder.ts';
import { plainDecoder } from '../../src/model/plain-decoder.ts';
import { randomCheckpoint } from './random-checkpoint.ts';

/**
 * Weights of a model that says what comes next in a fixed round of ids 0 … `cycle` − 1, whatever its layers compute: what these add
 * to the stream is multiplied by 0, and the head's row of an id is the embedding of the one before it. An id past the round
 * is embedded as one in it, so that what follows it is in the round again. As much work a row as any model of its shape, and how often it
 * keeps to the round is set by the temperature. `config` has a head of its own.
 */
export function copyingCheckpoint(name: string, config: ModelConfig, cycle: number): Checkpoint {
  const inner = randomCheckpoint(name, config, 'F32');
  const { config: described, names } = describeDecoder(config);
  const { layers, hiddenSize } = plainDecoder(described);
  const added = new Set<string>();
  for (let layer = 0; layer < layers; layer++) {
    const { attentionOutput, feedForward } = names.layer(layer);
    if (feedForward.kind !== 'gated') throw new Error('a plain decoder has gated networks');
    added.add(attentionOutput.weight.tensor).add(feedForward.down.weight.tensor);
  }
  const embedding = inner.tensors.get(names.embedding.tensor)!;
  const rowBytes = hiddenSize * 4;
  return {
    ...inner,
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      if (added.has(tensor.name)) return new Uint8Array(length);
      const head = tensor.name === names.head.tensor;
      if (!head && tensor.name !== names.embedding.tensor) return inner.read(tensor, from, length);
      const first = Math.floor(from / rowBytes);
      const rows = Math.ceil((from + length) / rowBytes) - first;
      const bytes = new Uint8Array(rows * rowBytes);
      for (let i = 0; i < rows; i++) {
        const id = first + i;
        // Of an id past the round nothing is the embedding: it is drawn by mistake only.
        const embedded = !head ? id % cycle : id < cycle ? (id + cycle - 1) % cycle : id;
        bytes.set(await inner.read(embedding, embedded * rowBytes, rowBytes), i * rowBytes);
      }
      return bytes.subarray(from - first * rowBytes, from - first * rowBytes + length);
    },
  };
}

/** In the round. */
export function idAfter(id: number, cycle: number): number {
  return (id + 1) % cycle;
}

/**
 * The temperature at which the round is kept to with chance `kept`: the next id's logit is √hidden, others' are normal, all times an
 * embedding's length.
 */
export function temperatureFor(kept: number, hiddenSize: number, vocabSize: number): number {
  let [low, high] = [0.05, 50];
  for (let i = 0; i < 60; i++) {
    const t = (low + high) / 2;
    const other = Math.log(vocabSize) + 1 / (2 * t * t) - Math.sqrt(hiddenSize) / t;
    if (1 / (1 + Math.exp(other)) > kept) low = t;
    else high = t;
  }
  // As randomCheckpoint makes them: ±[a, 2a), a power of two.
  const a = 2 ** Math.round(Math.log2(0.65 / Math.sqrt(hiddenSize)));
  return low * a * Math.sqrt((7 / 3) * hiddenSize);
}
