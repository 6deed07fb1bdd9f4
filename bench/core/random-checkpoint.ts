import type { Checkpoint, TensorInfo } from '../../src/checkpoint/checkpoint.ts';
import { EMBEDDING_NAME, FINAL_NORM_NAME, HEAD_NAME, layerNames } from '../../src/model/decoder-tensors.ts';
import type { LlamaConfig } from '../../src/model/llama-config.ts';

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
export function randomCheckpoint(name: string, config: LlamaConfig, dtype: RandomDtype): Checkpoint {
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

function shapes(config: LlamaConfig): [string, readonly number[]][] {
  const { hiddenSize, intermediateSize, vocabSize } = config;
  const queries = config.heads * config.headSize;
  const keys = config.kvHeads * config.headSize;
  const layers = Array.from({ length: config.layers }, (_, layer): [string, readonly number[]][] => {
    const names = layerNames(layer);
    return [
      [names.attentionNorm, [hiddenSize]],
      [names.query, [queries, hiddenSize]],
      [names.key, [keys, hiddenSize]],
      [names.value, [keys, hiddenSize]],
      [names.attentionOutput, [hiddenSize, queries]],
      [names.feedForwardNorm, [hiddenSize]],
      [names.gate, [intermediateSize, hiddenSize]],
      [names.up, [intermediateSize, hiddenSize]],
      [names.down, [hiddenSize, intermediateSize]],
    ];
  });
  return [
    [EMBEDDING_NAME, [vocabSize, hiddenSize]],
    ...layers.flat(),
    [FINAL_NORM_NAME, [hiddenSize]],
    ...(config.tiedHead ? [] : [[HEAD_NAME, [vocabSize, hiddenSize]] as [string, readonly number[]]]),
  ];
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
