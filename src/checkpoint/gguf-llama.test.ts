import { describe, expect, it } from 'vitest';
import { bytesSource } from './byte-source.ts';
import { CheckpointError } from './checkpoint.ts';
import { llama3Scaling } from './llama3-rope.ts';
import { openGguf } from './open-gguf.ts';
import { tinyLlama, type Written, type WrittenTensor, zeros } from './testing/write-gguf.ts';

type Metadata = Readonly<Record<string, Written | undefined>>;
type Tensors = Readonly<Record<string, WrittenTensor | undefined>>;

const open = (metadata: Metadata = {}, tensors: Tensors = {}) =>
  openGguf(bytesSource('m.gguf', tinyLlama(metadata, tensors)));
const raw = async (metadata: Metadata, tensors: Tensors = {}) => (await open(metadata, tensors)).config.raw;

async function refusal(metadata: Metadata, tensors: Tensors = {}): Promise<string> {
  const error = await open(metadata, tensors).then(
    () => undefined,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(CheckpointError);
  return (error as Error).message;
}

describe('config', () => {
  it("has Hugging Face's keys and defaults", async () => {
    expect(await raw({})).toEqual({
      architectures: ['LlamaForCausalLM'],
      model_type: 'llama',
      vocab_size: 8,
      max_position_embeddings: 16,
      hidden_size: 8,
      intermediate_size: 12,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      num_key_value_heads: 2,
      head_dim: 4,
      rms_norm_eps: 1e-5,
      rope_theta: 10_000,
      rope_scaling: null,
      hidden_act: 'silu',
      tie_word_embeddings: true,
      attention_bias: false,
      mlp_bias: false,
      bos_token_id: 1,
      eos_token_id: [2],
      pad_token_id: null,
    });
  });

  it('says what else a file may say', async () => {
    expect(
      await raw(
        {
          'llama.vocab_size': 10,
          'llama.attention.head_count_kv': 1,
          'llama.attention.key_length': 6,
          'llama.attention.value_length': 6,
          'llama.rope.dimension_count': 6,
          'llama.rope.freq_base': 500_000.5,
          'tokenizer.ggml.eot_token_id': 4,
          'tokenizer.ggml.eom_token_id': 2,
          'tokenizer.ggml.padding_token_id': 0,
        },
        {
          'token_embd.weight': zeros('F32', 8, 10),
          'output.weight': zeros('F16', 8, 10),
          'blk.0.attn_q.weight': zeros('F32', 8, 12),
          'blk.0.attn_k.weight': zeros('F32', 8, 6),
          'blk.0.attn_v.weight': zeros('F32', 8, 6),
          'blk.0.attn_output.weight': zeros('F32', 12, 8),
          'blk.0.attn_q.bias': zeros('F32', 12),
          'blk.0.attn_k.bias': zeros('F32', 6),
          'blk.0.attn_v.bias': zeros('F32', 6),
          'blk.0.attn_output.bias': zeros('F32', 8),
        },
      ),
    ).toMatchObject({
      ...{ vocab_size: 10, num_key_value_heads: 1, head_dim: 6, rope_theta: 500_000.5 },
      ...{ tie_word_embeddings: false, attention_bias: true, mlp_bias: false, eos_token_id: [2, 4], pad_token_id: 0 },
    });
  });

  it.each([
    ['<|im_end|>', 3, [2, 4]],
    ['<end_of_turn>', 4, [2, 4]],
    // Of another type it is a text like any other.
    ['<|end|>', 1, [2]],
    ['<|start|>', 3, [2]],
  ])('ends at %s of type %i, as llama.cpp does, though the file has no id for it', async (text, type, ends) => {
    const tokens = ['<unk>', '<s>', '</s>', '▁', text, 'b', 'ab', '▁ab'];
    const types = { 'tokenizer.ggml.token_type': Int32Array.of(2, 3, 3, 1, type, 1, 1, 1) };
    expect((await raw({ 'tokenizer.ggml.tokens': tokens, ...types })).eos_token_id).toEqual(ends);
  });

  it('knows the order of rows that the first files tell, and no other', async () => {
    const layout = (value: string) => ({ 'llama.tensor_data_layout': value });
    expect(await raw(layout('Meta AI original pth'))).toEqual(await raw({}));
    expect(await refusal(layout('reference'))).toMatch(/tensor_data_layout is "reference"; only Meta AI original pth/);
  });

  it('is a Mistral where there is a window, and then has no biases', async () => {
    const window = { 'llama.attention.sliding_window': 5 };
    expect(await raw(window)).toMatchObject({ architectures: ['MistralForCausalLM'], sliding_window: 5 });
    expect(await refusal(window, { 'blk.0.attn_q.bias': zeros('F32', 8) })).toMatch(
      /"blk\.0\.attn_q\.bias" is not known/,
    );
  });

  it.each<[string, Metadata, object | null]>([
    ['none', { 'llama.rope.scaling.type': 'none' }, null],
    [
      'linear',
      { 'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': 2.5 },
      { rope_type: 'linear', factor: 2.5 },
    ],
    ['linear as it was', { 'llama.rope.scale_linear': 4 }, { rope_type: 'linear', factor: 4 }],
    [
      'yarn',
      {
        'llama.rope.scaling.type': 'yarn',
        'llama.rope.scaling.factor': 4,
        'llama.rope.scaling.original_context_length': 8,
        'llama.rope.scaling.attn_factor': 1.1,
      },
      {
        ...{ rope_type: 'yarn', factor: 4, original_max_position_embeddings: 8 },
        // The file's multiplies what a stretch by four asks for.
        attention_factor: 1.1 * (1 + 0.1 * Math.log(4)),
      },
    ],
  ])('knows rope scaling: %s', async (_, metadata, scaling) => {
    expect((await raw(metadata)).rope_scaling).toEqual(scaling);
  });

  it("recognises Llama 3's rope by its factors, and refuses others", async () => {
    // Heads of 4 numbers: wavelengths 2π and 2π · 500000^(1/2) ≈ 4443, between 8192/4 and 8192.
    const smooth = (8192 / (2 * Math.PI * Math.sqrt(500_000)) - 1) / 3;
    const between = 1 / ((1 - smooth) / 8 + smooth);
    expect(between).toBeGreaterThan(1);
    const factors = (...values: number[]): Tensors => ({
      'rope_freqs.weight': {
        type: 'F32',
        sizes: [values.length],
        bytes: new Uint8Array(Float32Array.from(values).buffer),
      },
    });
    const theta = { 'llama.rope.freq_base': 500_000 };
    // The last pair of so short a head isn't divided by the whole factor, so these aren't Llama 3's.
    expect(await refusal(theta, factors(1, between))).toMatch(/m\.gguf: rope_freqs\.weight holds factors/);
    expect(await refusal(theta, factors(1, 2, 3))).toMatch(/rope_freqs\.weight/);
    expect(await refusal({ ...theta, 'llama.rope.scaling.type': 'linear' }, factors(1, 8))).toMatch(
      /linear, beside rope/,
    );
    const million = { 'llama.rope.freq_base': 100_000_000 };
    const opened = await open(million, factors(1, 32));
    expect(opened.config.raw.rope_scaling).toEqual({
      ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
      original_max_position_embeddings: 8192,
    });
    expect(opened.checkpoint.tensors.has('rope_freqs.weight')).toBe(false);
  });

  it("recognises the factors that Llama 3.2's files have", () => {
    // Heads of 64, θ = 500000: from wavelengths of 2048 to 8192 the factor goes from 1 to 32.
    const divisors = Array.from({ length: 32 }, (_, pair) => {
      const wavelength = 2 * Math.PI * 500_000 ** (pair / 32);
      const smooth = Math.min(1, Math.max(0, (8192 / wavelength - 1) / 3));
      return 1 / ((1 - smooth) / 32 + smooth);
    });
    expect(divisors.filter((divisor) => divisor > 1 && divisor < 32).length).toBeGreaterThan(2);
    expect(llama3Scaling(Float32Array.from(divisors), 64, 500_000)).toMatchObject({ rope_type: 'llama3', factor: 32 });
    divisors[17]! *= 1.01;
    expect(llama3Scaling(Float32Array.from(divisors), 64, 500_000)).toBeUndefined();
  });

  it.each<[string, Metadata, RegExp]>([
    ['no architecture', { 'general.architecture': undefined }, /general\.architecture is missing/],
    ['another architecture', { 'general.architecture': 'falcon' }, /general\.architecture is "falcon"; known: llama/],
    ['an inherited name', { 'general.architecture': 'constructor' }, /"constructor"; known/],
    ['a missing size', { 'llama.block_count': undefined }, /llama\.block_count is missing/],
    ['a size of 0', { 'llama.context_length': 0 }, /llama\.context_length is 0/],
    ['a size a layer', { 'llama.feed_forward_length': Int32Array.of(12) }, /llama\.feed_forward_length is a list of 1/],
    ['a size that is a text', { 'llama.embedding_length': '8' }, /llama\.embedding_length is "8"/],
    ['heads that do not divide', { 'llama.attention.head_count': 3 }, /llama\.attention\.head_count is 3/],
    ['a part of a head rotated', { 'llama.rope.dimension_count': 2 }, /llama\.rope\.dimension_count is 2/],
    ['values of another size', { 'llama.attention.value_length': 2 }, /llama\.attention\.value_length is 2/],
    ['experts of which none is chosen', { 'llama.expert_count': 8 }, /llama\.expert_used_count is missing/],
    ['experts that are not there', { 'llama.expert_count': 8, 'llama.expert_used_count': 2 }, /"blk\.0\.ffn_gate_inp/],
    ['a key it does not know', { 'llama.logit_scale': 2.5 }, /llama\.logit_scale is not known/],
    ['another rope scaling', { 'llama.rope.scaling.type': 'longrope' }, /"longrope"; known: none, linear, yarn/],
    [
      "a factor of attention's that nothing stretches",
      { 'llama.rope.scaling.attn_factor': 1.2 },
      /rope\.scaling\.attn_factor is 1\.2, of rope\.scaling\.type "none"/,
    ],
    ['no epsilon', { 'llama.attention.layer_norm_rms_epsilon': undefined }, /layer_norm_rms_epsilon is missing/],
    ['more tokens than rows', { 'llama.vocab_size': 7 }, /tokenizer\.ggml\.tokens has 8 tokens of 7/],
    ['absurdly many layers', { 'llama.block_count': 4_000_000_000 }, /"blk\.1\.attn_norm\.weight" is missing/],
  ])('refuses %s', async (_, metadata, reason) => {
    const message = await refusal(metadata);
    expect(message).toMatch(/^m\.gguf: /);
    expect(message).toMatch(reason);
  });
});

describe('tensors', () => {
  it.each<[string, Tensors, RegExp]>([
    ['is missing', { 'blk.0.ffn_up.weight': undefined }, /tensor "blk\.0\.ffn_up\.weight" is missing/],
    [
      'is transposed',
      { 'blk.0.ffn_up.weight': zeros('F32', 12, 8) },
      /"blk\.0\.ffn_up\.weight" has shape \[8, 12\], the metadata asks for \[12, 8\]/,
    ],
    ['has a dimension more', { 'output_norm.weight': zeros('F32', 8, 1) }, /"output_norm\.weight" has shape \[1, 8\]/],
    ['is not known', { 'some.other': zeros('F32', 1) }, /tensor "some\.other" is not known/],
    ['has a bias alone', { 'blk.0.attn_q.bias': zeros('F32', 8) }, /"blk\.0\.attn_k\.bias" is missing/],
  ])('are refused where one %s', async (_, tensors, reason) => {
    expect(await refusal({}, tensors)).toMatch(reason);
  });

  it("have Hugging Face's names, and queries and keys its row order, biases too", async () => {
    const numbered = (...sizes: number[]): WrittenTensor => {
      const tensor = zeros('F32', ...sizes);
      return {
        ...tensor,
        bytes: new Uint8Array(Float32Array.from({ length: tensor.bytes.length / 4 }, (_, i) => i).buffer),
      };
    };
    const { checkpoint } = await open(
      { 'llama.attention.head_count_kv': 1 },
      {
        'blk.0.attn_q.weight': numbered(8, 8),
        'blk.0.attn_k.weight': numbered(8, 4),
        'blk.0.attn_v.weight': numbered(8, 4),
        'blk.0.attn_q.bias': numbered(8),
        'blk.0.attn_k.bias': numbered(4),
        'blk.0.attn_v.bias': numbered(4),
        'blk.0.attn_output.bias': numbered(8),
        'blk.0.attn_rot_embd': zeros('F32', 1),
      },
    );
    const read = async (name: string) => {
      const bytes = await checkpoint.read(checkpoint.tensors.get(`model.layers.0.self_attn.${name}`)!);
      return [...new Float32Array(bytes.slice().buffer)];
    };
    const firstOfRows = async (name: string) =>
      (await read(name)).filter((_, i) => i % 8 === 0).map((value) => value / 8);
    expect(await firstOfRows('q_proj.weight')).toEqual([0, 2, 1, 3, 4, 6, 5, 7]);
    expect(await firstOfRows('k_proj.weight')).toEqual([0, 2, 1, 3]);
    expect(await firstOfRows('v_proj.weight')).toEqual([0, 1, 2, 3]);
    expect(await read('q_proj.bias')).toEqual([0, 2, 1, 3, 4, 6, 5, 7]);
    expect(await read('k_proj.bias')).toEqual([0, 2, 1, 3]);
    expect(await read('v_proj.bias')).toEqual([0, 1, 2, 3]);
    expect([...checkpoint.tensors.keys()].filter((name) => !name.startsWith('model.'))).toEqual([]);
  });
});
