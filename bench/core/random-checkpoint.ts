import type { Checkpoint, TensorInfo } from '../../src/checkpoint/checkpoint.ts';
import type { ModelConfig } from '../../src/checkpoint/model-config.ts';
import { describeDecoder } from '../../src/model/describe-decoder.ts';
import { plainDecoder } from '../../src/model/plain-decoder.ts';

import { blockBytes, type RandomBlockType, randomBlocks } from './random-blocks.ts';

type FloatDtype = 'F32' | 'F16' | 'BF16';
export type RandomDtype = FloatDtype | RandomBlockType;

/** Of a number's bits: sign and fraction, which are random, and how an exponent is written. */
const FORMATS: Readonly<Record<FloatDtype, { bytes: number; randomBits: number; exponentAt: number; bias: number }>> = {
  F32: { bytes: 4, randomBits: 0x807fffff, exponentAt: 23, bias: 127 },
  F16: { bytes: 2, randomBits: 0x83ff83ff, exponentAt: 10, bias: 15 },
  BF16: { bytes: 2, randomBits: 0x807f807f, exponentAt: 7, bias: 127 },
};

/**
 * A Llama's weights out of nothing: bytes are made when they are read, a function of tensor and place, so that no
 * model has to be downloaded and none is held. Norms are 1; floats of a matrix are ±[1, 2) times a power of two that
 * keeps the size of what the matrix is multiplied with; of GGML's types see randomBlocks.
 */
export function randomCheckpoint(name: string, config: ModelConfig, dtype: RandomDtype): Checkpoint {
  const tensors = new Map<string, TensorInfo>();
  let offset = 0;
  for (const [tensor, shape] of shapes(config)) {
    const values = shape.reduce((product, size) => product * size, 1);
    // As in a file of blocks, norms are floats.
    const own = isFloat(dtype) ? dtype : shape.length > 1 ? dtype : 'F32';
    const byteLength = isFloat(own) ? values * FORMATS[own].bytes : blockBytes(own, values);
    tensors.set(tensor, { name: tensor, dtype: own, shape, offset, byteLength });
    offset += byteLength;
  }
  return {
    name: `random weights of ${name}`,
    tensors,
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      const own = tensor.dtype as RandomDtype;
      if (isFloat(own)) return randomBytes(tensor, own, from, length);
      return randomBlocks(own, tensor.shape[1]!, tensor.offset, from, length);
    },
  };
}

function isFloat(dtype: RandomDtype): dtype is FloatDtype {
  return Object.hasOwn(FORMATS, dtype);
}

function shapes(modelConfig: ModelConfig): [string, readonly number[]][] {
  const { config, names } = describeDecoder(modelConfig);
  const { layers, hiddenSize, intermediateSize, vocabSize, ...plain } = plainDecoder(config);
  const queries = plain.heads * plain.headSize;
  const keys = plain.kvHeads * plain.headSize;
  const all: [string, readonly number[]][] = [[names.embedding.tensor, [vocabSize, hiddenSize]]];
  for (let layer = 0; layer < layers; layer++) {
    const { query, key, value, attentionOutput, attentionNorm, feedForwardNorm, feedForward } = names.layer(layer);
    if (feedForward.kind !== 'gated') throw new Error('a plain decoder has gated networks');
    all.push(
      [attentionNorm!.weight, [hiddenSize]],
      [query.weight.tensor, [queries, hiddenSize]],
      [key.weight.tensor, [keys, hiddenSize]],
      [value.weight.tensor, [keys, hiddenSize]],
      [attentionOutput.weight.tensor, [hiddenSize, queries]],
      [feedForwardNorm!.weight, [hiddenSize]],
      [feedForward.gate.weight.tensor, [intermediateSize, hiddenSize]],
      [feedForward.up.weight.tensor, [intermediateSize, hiddenSize]],
      [feedForward.down.weight.tensor, [hiddenSize, intermediateSize]],
    );
  }
  all.push([names.finalNorm.weight, [hiddenSize]]);
  if (!plain.tiedHead) all.push([names.head.tensor, [vocabSize, hiddenSize]]);
  return all;
}

function randomBytes(tensor: TensorInfo, dtype: FloatDtype, from: number, length: number): Uint8Array {
  const { bytes, randomBits, exponentAt, bias } = FORMATS[dtype];
  const columns = tensor.shape[1];
  // ±[a, 2a) has a deviation of about 1.5 a; norms are exactly 1.
  const exponent = columns === undefined ? bias : bias + Math.round(Math.log2(0.65 / Math.sqrt(columns)));
  const one = exponent << exponentAt;
  const constant = bytes === 4 ? one : one | (one << 16);
  const mask = columns === undefined ? 0 : randomBits;
  const first = Math.floor(from / 4);
  const words = new Uint32Array(Math.ceil((from + length) / 4) - first);
  const key = tensor.offset + 0x9e3779b9;
  for (let i = 0; i < words.length; i++) {
    // The finaliser of MurmurHash3 over tensor and place.
    let bits = (first + i + key) | 0;
    bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
    words[i] = ((bits ^ (bits >>> 16)) & mask) | constant;
  }
  return new Uint8Array(words.buffer, from - 4 * first, length);
}
