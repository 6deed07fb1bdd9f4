import type { GgufArchitecture } from './gguf-architecture.ts';
import { GgufKeys } from './gguf-keys.ts';
import { ggufPooling } from './gguf-pooling.ts';
import { ggufRopeScaling, LONG_FACTORS, ROPE_FACTORS, SHORT_FACTORS } from './gguf-rope.ts';
import { type DecoderShape, decoderTensors } from './gguf-tensors.ts';

type Raw = Readonly<Record<string, unknown>>;

/** What all GGUF decoders with rotated heads say. */
export interface GgufSizes {
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly headSize: number;
  readonly theta: number;
}

/** What one architecture's files say beside sizes. */
export interface GgufFamily {
  /** Hugging Face's class and model_type. */
  readonly architecture: string;
  readonly modelType: string;
  /** More of config.json. */
  readonly config?: Raw;
  readonly shape?: Partial<DecoderShape>;
}

/**
 * GGUF's `name`: sizes, rope and head are read alike for all; `family` reads the rest. `partial` says that part of a
 * head may be rotated.
 */
export function ggufDecoder(
  name: string,
  family: (keys: GgufKeys, sizes: GgufSizes) => GgufFamily,
  { partial = false, theta: defaultTheta = 10_000 } = {},
): GgufArchitecture {
  return async (gguf) => {
    const keys = new GgufKeys(gguf, name);
    const hidden = keys.size('embedding_length');
    const heads = keys.size('attention.head_count');
    const headSize = keys.optionalSize('attention.key_length') ?? hidden / heads;
    if (headSize % 2 !== 0) {
      keys.fail('attention.head_count', `is ${heads}: heads of ${headSize} numbers can't be rotated`);
    }
    keys.same('attention.value_length', headSize, "the head's size");
    if (!partial) keys.same('rope.dimension_count', headSize, "the head's size");
    const rotated = keys.optionalSize('rope.dimension_count') ?? headSize;
    const theta = keys.number('rope.freq_base') ?? defaultTheta;
    const layers = keys.size('block_count');
    const kvHeads = keys.optionalSize('attention.head_count_kv') ?? heads;
    const context = keys.size('context_length');
    const vocabulary = keys.optionalSize('vocab_size') ?? gguf.metadata.strings('tokenizer.ggml.tokens')?.length;
    const epsilon = keys.neededNumber('attention.layer_norm_rms_epsilon');
    const scaling = await ggufRopeScaling(keys, rotated, theta);
    const tied = !gguf.tensors.has('output.weight');
    const { architecture, modelType, config, shape } = family(keys, { hidden, layers, heads, headSize, theta });
    const inner = shape?.inner ?? keys.size('feed_forward_length');
    const pooling = ggufPooling(keys, ['last']);
    keys.refuseOthers();
    return {
      config: {
        architectures: [architecture],
        model_type: modelType,
        vocab_size: vocabulary,
        max_position_embeddings: context,
        hidden_size: hidden,
        intermediate_size: inner,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: kvHeads,
        head_dim: headSize,
        rms_norm_eps: epsilon,
        rope_theta: theta,
        rope_scaling: scaling,
        tie_word_embeddings: tied,
        ...(rotated === headSize ? {} : { partial_rotary_factor: partOf(rotated, headSize) }),
        ...config,
      },
      tensors: decoderTensors({
        ...{ vocabulary: vocabulary ?? 0, hidden, layers, heads, kvHeads, headSize, inner, tied },
        ...shape,
      }),
      spent: [ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS],
      ...(pooling ? { pooling } : {}),
    };
  };
}

/** The least number that makes `rotated` of `headSize` when multiplied and cut. */
function partOf(rotated: number, headSize: number): number {
  let part = rotated / headSize;
  while (Math.trunc(headSize * part) < rotated) part *= 1 + Number.EPSILON;
  return part;
}

/** Whether a file has biases of attention's and of the feed-forward network's products. */
export function biasesOf({ gguf }: GgufKeys): { readonly attention: boolean; readonly feedForward: boolean } {
  const names = [...gguf.tensors.keys()];
  return {
    attention: names.some((name) => /^blk\.\d+\.attn_\w+\.bias$/.test(name)),
    feedForward: names.some((name) => /^blk\.\d+\.ffn_\w+\.bias$/.test(name)),
  };
}
