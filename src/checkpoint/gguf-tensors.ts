import type { GgufTensor } from './gguf-architecture.ts';

/** Sizes and traits of a decoder that its tensors' names and shapes follow from. */
export interface DecoderShape {
  readonly vocabulary: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  /** Of the dense feed-forward network, or of one expert. */
  readonly inner: number;
  readonly tied: boolean;
  /** Rows of queries and keys are in interleaved order: where the file's engine rotates neighbours. */
  readonly interleaved?: boolean;
  readonly norms?: 'before' | 'after' | 'both';
  /** Norms hold 1 + w. */
  readonly plusOne?: boolean;
  readonly qkNorm?: 'head' | 'row';
  readonly qkvBias?: boolean;
  readonly outputBias?: boolean;
  readonly feedForwardBias?: boolean;
  /** One matrix for q, k and v, and one for gate and up. */
  readonly fused?: boolean;
  readonly experts?: {
    readonly count: number;
    /** Hugging Face's name of the module, and of an expert's three matrices in it. */
    readonly module: string;
    readonly gate: string;
    readonly up: string;
    readonly down: string;
    /** One tensor for all experts, as all but early files have it. */
    readonly stacked: boolean;
  };
}

/** Tensors of a decoder with Llama's names (https://github.com/ggml-org/llama.cpp, gguf-py: tensor_mapping). */
export function* decoderTensors(shape: DecoderShape): Iterable<GgufTensor> {
  const { vocabulary, hidden, layers, tied, plusOne = false } = shape;
  yield { name: 'token_embd.weight', shape: [vocabulary, hidden], names: ['model.embed_tokens.weight'] };
  for (let layer = 0; layer < layers; layer++) yield* layerTensors(shape, layer);
  yield { name: 'output_norm.weight', shape: [hidden], names: ['model.norm.weight'], plusOne };
  if (!tied) yield { name: 'output.weight', shape: [vocabulary, hidden], names: ['lm_head.weight'] };
}

function* layerTensors(shape: DecoderShape, layer: number): Iterable<GgufTensor> {
  const { hidden, inner, heads, kvHeads, headSize, norms = 'before', plusOne = false } = shape;
  const [queries, keys] = [heads * headSize, kvHeads * headSize];
  const file = (part: string) => `blk.${layer}.${part}`;
  const own = (part: string) => `model.layers.${layer}.${part}`;
  const norm = (part: string, name: string, size = hidden): GgufTensor => ({
    ...{ name: file(`${part}.weight`), shape: [size], names: [own(`${name}.weight`)], plusOne },
  });
  function* product(
    part: string,
    name: string,
    rows: number,
    columns: number,
    bias = false,
    interleavedHeads?: number,
  ) {
    const order = interleavedHeads === undefined ? {} : { interleavedHeads };
    yield { name: file(`${part}.weight`), shape: [rows, columns], names: [own(`${name}.weight`)], ...order };
    if (bias) yield { name: file(`${part}.bias`), shape: [rows], names: [own(`${name}.bias`)], ...order };
  }

  if (norms !== 'after') yield norm('attn_norm', 'input_layernorm');
  if (shape.fused) {
    yield* product('attn_qkv', 'self_attn.qkv_proj', queries + 2 * keys, hidden);
  } else {
    const order = (count: number) => (shape.interleaved ? count : undefined);
    yield* product('attn_q', 'self_attn.q_proj', queries, hidden, shape.qkvBias, order(heads));
    yield* product('attn_k', 'self_attn.k_proj', keys, hidden, shape.qkvBias, order(kvHeads));
    yield* product('attn_v', 'self_attn.v_proj', keys, hidden, shape.qkvBias);
  }
  if (shape.qkNorm) {
    const row = shape.qkNorm === 'row';
    yield norm('attn_q_norm', 'self_attn.q_norm', row ? queries : headSize);
    yield norm('attn_k_norm', 'self_attn.k_norm', row ? keys : headSize);
  }
  yield* product('attn_output', 'self_attn.o_proj', hidden, queries, shape.outputBias);
  if (norms !== 'before') {
    yield norm('post_attention_norm', 'post_attention_layernorm');
    yield norm('post_ffw_norm', 'post_feedforward_layernorm');
  }
  if (norms === 'before') yield norm('ffn_norm', 'post_attention_layernorm');
  if (norms === 'both') yield norm('ffn_norm', 'pre_feedforward_layernorm');
  if (shape.experts) {
    yield* expertTensors(shape, shape.experts, layer);
  } else if (shape.fused) {
    yield* product('ffn_up', 'mlp.gate_up_proj', 2 * inner, hidden);
    yield* product('ffn_down', 'mlp.down_proj', hidden, inner);
  } else {
    yield* product('ffn_gate', 'mlp.gate_proj', inner, hidden, shape.feedForwardBias);
    yield* product('ffn_up', 'mlp.up_proj', inner, hidden, shape.feedForwardBias);
    yield* product('ffn_down', 'mlp.down_proj', hidden, inner, shape.feedForwardBias);
  }
}

function* expertTensors(
  { hidden, inner }: DecoderShape,
  { count, module, gate, up, down, stacked }: NonNullable<DecoderShape['experts']>,
  layer: number,
): Iterable<GgufTensor> {
  const own = (part: string) => `model.layers.${layer}.${module}.${part}.weight`;
  yield { name: `blk.${layer}.ffn_gate_inp.weight`, shape: [count, hidden], names: [own('gate')] };
  for (const [part, name, rows, columns] of [
    ['ffn_gate', gate, inner, hidden],
    ['ffn_up', up, inner, hidden],
    ['ffn_down', down, hidden, inner],
  ] as const) {
    const names = Array.from({ length: count }, (_, expert) => own(`experts.${expert}.${name}`));
    if (stacked) {
      yield { name: `blk.${layer}.${part}_exps.weight`, shape: [count, rows, columns], names };
      continue;
    }
    for (const [expert, each] of names.entries()) {
      yield { name: `blk.${layer}.${part}.${expert}.weight`, shape: [rows, columns], names: [each] };
    }
  }
}

/** GPT-2's; its matrices lie the other way round than in Hugging Face's files. */
export function* gpt2Tensors(
  shape: Pick<DecoderShape, 'vocabulary' | 'hidden' | 'layers' | 'inner' | 'tied'> & { readonly positions: number },
): Iterable<GgufTensor> {
  const { vocabulary, hidden, layers, inner, tied, positions } = shape;
  const both = function* (part: string, own: string, rows: number, columns?: number): Iterable<GgufTensor> {
    const shape = columns === undefined ? [rows] : [rows, columns];
    const transposed = columns !== undefined;
    yield { name: `${part}.weight`, shape, names: [`${own}.weight`], transposed };
    yield { name: `${part}.bias`, shape: [rows], names: [`${own}.bias`] };
  };
  yield { name: 'token_embd.weight', shape: [vocabulary, hidden], names: ['transformer.wte.weight'] };
  yield { name: 'position_embd.weight', shape: [positions, hidden], names: ['transformer.wpe.weight'] };
  for (let layer = 0; layer < layers; layer++) {
    const [file, own] = [`blk.${layer}`, `transformer.h.${layer}`];
    yield* both(`${file}.attn_norm`, `${own}.ln_1`, hidden);
    yield* both(`${file}.attn_qkv`, `${own}.attn.c_attn`, 3 * hidden, hidden);
    yield* both(`${file}.attn_output`, `${own}.attn.c_proj`, hidden, hidden);
    yield* both(`${file}.ffn_norm`, `${own}.ln_2`, hidden);
    yield* both(`${file}.ffn_up`, `${own}.mlp.c_fc`, inner, hidden);
    yield* both(`${file}.ffn_down`, `${own}.mlp.c_proj`, hidden, inner);
  }
  yield* both('output_norm', 'transformer.ln_f', hidden);
  if (!tied) yield { name: 'output.weight', shape: [vocabulary, hidden], names: ['lm_head.weight'] };
}
