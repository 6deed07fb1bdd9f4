import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { TensorInfo } from '../../checkpoint/checkpoint.ts';
import type { Gguf } from '../../checkpoint/gguf.ts';
import { GGUF_ARCHITECTURES } from '../../checkpoint/gguf-families.ts';
import { GgufMetadata, type GgufValue } from '../../checkpoint/gguf-metadata.ts';
import { parseModelConfig } from '../../checkpoint/model-config.ts';
import type { DecoderConfig } from '../decoder-config.ts';
import { describeDecoder } from '../describe-decoder.ts';

/** What llama.cpp's converter (convert_hf_to_gguf.py of September 2025) makes of a released model's config.json. */
interface Released {
  readonly model: string;
  readonly architecture: string;
  /** Keys under the architecture's name. */
  readonly metadata: Readonly<Record<string, number | string>>;
  readonly vocabulary: number;
  readonly untied?: boolean;
  /** Tensors of factors by which frequencies are divided. */
  readonly factors?: Readonly<Record<string, readonly number[]>>;
}

function lines<T>(name: string): readonly T[] {
  const text = readFileSync(new URL(`./testing/${name}.jsonl`, import.meta.url), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

const configs = new Map(
  lines<{ model: string; config: object }>('released-decoders').map(({ model, config }) => [model, config]),
);

/** A file with this metadata, and of tensors only what the config follows from. */
function ggufOf({ architecture, metadata, vocabulary, untied, factors = {} }: Released): Gguf {
  const own = Object.entries(metadata).map(([key, value]): [string, GgufValue] => [`${architecture}.${key}`, value]);
  const tokens: [string, GgufValue] = ['tokenizer.ggml.tokens', Array.from({ length: vocabulary }, () => 'x')];
  const info = (name: string, length: number): [string, TensorInfo] => [
    name,
    { name, dtype: 'F32', shape: [length], offset: 0, byteLength: 4 * length },
  ];
  const experts = metadata.expert_count === undefined ? [] : ['blk.0.ffn_gate_exps.weight'];
  const names = [...(untied ? ['output.weight'] : []), ...experts];
  return {
    name: 'm.gguf',
    version: 3,
    metadata: new GgufMetadata('m.gguf', new Map([...own, tokens])),
    tensors: new Map([
      ...names.map((name) => info(name, 1)),
      ...Object.entries(factors).map(([name, { length }]) => info(name, length)),
    ]),
    read: async ({ name }) => new Uint8Array(Float32Array.from(factors[name]!).buffer),
  };
}

/** What a file can't say of itself, apart from the ropes. */
const comparable = ({ ropes: _, architecture, ...config }: DecoderConfig) => ({
  ...config,
  architecture: architecture === 'MistralForCausalLM' ? 'LlamaForCausalLM' : architecture,
});

test.each(lines<Released>('released-ggufs'))('$model as $architecture', async (released) => {
  const { config } = await GGUF_ARCHITECTURES[released.architecture]!(ggufOf(released));
  const fromGguf = describeDecoder(parseModelConfig(JSON.stringify(config), 'm.gguf')).config;
  // A converter leaves out ids that no token has.
  const original = configs.get(released.model)!;
  const parsed = parseModelConfig(JSON.stringify(original), 'config.json');
  const expected = describeDecoder({ ...parsed, vocabSize: released.vocabulary }).config;
  expect(comparable(fromGguf)).toEqual(comparable(expected));
  expect(fromGguf.ropes.map(({ rotated }) => rotated)).toEqual(expected.ropes.map(({ rotated }) => rotated));
  fromGguf.ropes.forEach(({ factor, frequencies }, r) => {
    expect(factor).toBeCloseTo(expected.ropes[r]!.factor, 6);
    frequencies.forEach((frequency, pair) => {
      expect(frequency / expected.ropes[r]!.frequencies[pair]!).toBeCloseTo(1, 5);
    });
  });
});
