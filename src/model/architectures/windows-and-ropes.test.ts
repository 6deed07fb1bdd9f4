import { describe, expect, test } from 'vitest';
import { parseModelConfig } from '../../checkpoint/model-config.ts';
import { architectureOf } from '../architecture-of.ts';
import type { DecoderConfig } from '../decoder-config.ts';
import { BASE, type Keys, read, refusal, TWO_KV } from './testing/read-decoder.ts';

const windows = (config: DecoderConfig) => config.layers.map(({ attention }) => attention.window);
const ropes = (config: DecoderConfig) => config.layers.map(({ attention }) => attention.rope);

describe('windows', () => {
  const all = (window?: number) => Array.from({ length: 8 }, () => window);
  const from = (first: number, window: number) => all().map((_, layer) => (layer < first ? undefined : window));

  test("Mistral's is 4096 unless said, may be null, and none where it hides nothing", () => {
    expect(windows(read('MistralForCausalLM'))).toEqual(all(4096));
    expect(windows(read('MistralForCausalLM', { sliding_window: null }))).toEqual(all());
    expect(windows(read('MistralForCausalLM', { sliding_window: 8192 }))).toEqual(all());
    expect(windows(read('MistralForCausalLM', { sliding_window: 100 }))).toEqual(all(100));
    expect(windows(read('MixtralForCausalLM'))).toEqual(all());
    expect(windows(read('MixtralForCausalLM', { sliding_window: 100 }))).toEqual(all(100));
    expect(windows(read('Phi3ForCausalLM'))).toEqual(all());
    expect(windows(read('Phi3ForCausalLM', { sliding_window: 100 }))).toEqual(all(100));
  });

  test.each(['Qwen2ForCausalLM', 'Qwen3ForCausalLM'])('%s: off unless used, and then of late layers alone', (name) => {
    const own = { ...TWO_KV, sliding_window: 100 };
    expect(windows(read(name, { ...own, use_sliding_window: false, max_window_layers: 0 }))).toEqual(all());
    expect(windows(read(name, { ...own, max_window_layers: 3 }))).toEqual(all());
    expect(windows(read(name, { ...own, use_sliding_window: true, max_window_layers: 3 }))).toEqual(from(3, 100));
    expect(windows(read(name, { ...own, use_sliding_window: true }))).toEqual(all());
    const layer_types = all().map((_, layer) => (layer === 1 ? 'sliding_attention' : 'full_attention'));
    expect(windows(read(name, { ...own, use_sliding_window: true, layer_types }))).toEqual(
      all().map((_, layer) => (layer === 1 ? 100 : undefined)),
    );
    expect(refusal(name, { ...own, layer_types: ['chunked_attention'] })).toMatch(/layer_types is \["chunked/);
    expect(refusal(name, { ...own, layer_types: layer_types.slice(1) })).toMatch(/each of 8 layers/);
  });

  test("Qwen3's with experts is all layers'", () => {
    const own = { ...TWO_KV, sliding_window: 100, max_window_layers: 3 };
    expect(windows(read('Qwen3MoeForCausalLM', { ...own, use_sliding_window: true }))).toEqual(all(100));
    expect(windows(read('Qwen3MoeForCausalLM', own))).toEqual(all());
  });

  test("Gemma's by turns, unless layer_types says which", () => {
    const turns = (every: number) => all().map((_, layer) => ((layer + 1) % every === 0 ? undefined : 100));
    expect(windows(read('Gemma2ForCausalLM', { sliding_window: 100 }))).toEqual(turns(2));
    expect(windows(read('Gemma3ForCausalLM', { sliding_window: 100 }))).toEqual(turns(6));
    expect(windows(read('Gemma3ForCausalLM', { sliding_window: 100, sliding_window_pattern: 3 }))).toEqual(turns(3));
    const layer_types = all().map((_, layer) => (layer < 3 ? 'full_attention' : 'sliding_attention'));
    for (const name of ['Gemma2ForCausalLM', 'Gemma3ForCausalLM']) {
      expect(windows(read(name, { sliding_window: 100, layer_types }))).toEqual(from(3, 100));
    }
  });

  test("SmolLM3's where it does not rotate", () => {
    const own = { sliding_window: 100, use_sliding_window: true };
    const expected = all().map((_, layer) => (layer % 4 === 3 ? 100 : undefined));
    expect(windows(read('SmolLM3ForCausalLM', own))).toEqual(expected);
    expect(windows(read('SmolLM3ForCausalLM', { ...own, use_sliding_window: false }))).toEqual(all());
    const layer_types = all().map(() => 'full_attention');
    expect(windows(read('SmolLM3ForCausalLM', { ...own, layer_types }))).toEqual(all());
  });
});

describe('ropes', () => {
  const yarn = { type: 'yarn', factor: 4, original_max_position_embeddings: 2048 };

  test('in the classic keys and in the newer ones are the same, kind under type or rope_type', () => {
    const classic = read('LlamaForCausalLM', { rope_theta: 500, rope_scaling: yarn });
    const { type: rope_type, ...own } = yarn;
    expect(read('LlamaForCausalLM', { rope_theta: 500, rope_scaling: { rope_type, ...own } })).toEqual(classic);
    expect(read('LlamaForCausalLM', { rope_parameters: { rope_type, rope_theta: 500, ...own } })).toEqual(classic);
    expect(classic).not.toEqual(read('LlamaForCausalLM', { rope_theta: 500 }));
    const whole = { partial_rotary_factor: 1, original_max_position_embeddings: 4096 };
    const plain = { rope_parameters: { rope_theta: 500, rope_type: 'default', ...whole } };
    expect(read('LlamaForCausalLM', plain)).toEqual(read('LlamaForCausalLM', { rope_theta: 500 }));
  });

  test.each<[Keys, RegExp]>([
    [{ rope_scaling: { type: 'yarn', rope_type: 'linear', factor: 2 } }, /rope_scaling\.type is "yarn", and its/],
    [
      { rope_theta: 500, rope_parameters: { rope_theta: 600 } },
      /rope_theta is 500, and rope_parameters\.rope_theta 600/,
    ],
    [{ rope_scaling: yarn, rope_parameters: { rope_theta: 600 } }, /both there, and differ/],
    [{ rope_theta: 1, rope_scaling: yarn }, /rope_theta is 1, not above 1/],
    [{ rope_scaling: { type: 'linear' } }, /rope_scaling\.factor is undefined, not a positive number/],
    [{ rope_scaling: { type: 'linear', factor: 2, offset: 3 } }, /rope_scaling\.offset is 3, a setting/],
    [{ rope_scaling: { type: 'longrope', factor: 2 } }, /"longrope"; known: default, linear, llama3, yarn, dynamic$/],
    [{ rope_scaling: { type: 'dynamic' } }, /rope_scaling\.factor is undefined, not a positive number/],
    // The reference takes no notice of it, other code does.
    [
      { rope_scaling: { type: 'dynamic', factor: 2, original_max_position_embeddings: 2048 } },
      /rope_scaling\.original_max_position_embeddings is 2048/,
    ],
    [{ rope_scaling: { type: 'constructor' } }, /"constructor"; known/],
    [{ rope_scaling: { rope_type: 7 } }, /rope_type is 7; known/],
    [{ rope_parameters: { full_attention: { rope_type: 'default' } } }, /rope_parameters\.full_attention is \{/],
    [{ rope_scaling: { ...yarn, truncate: 'no' } }, /rope_scaling\.truncate is "no", neither/],
    [{ rope_scaling: { ...yarn, beta_fast: -1 } }, /rope_scaling\.beta_fast is -1/],
    [
      { rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 4, high_freq_factor: 1 } },
      /low_freq_factor is 4, not under high_freq_factor/,
    ],
  ])('%j is refused', (keys, reason) => {
    expect(refusal('LlamaForCausalLM', keys)).toMatch(reason);
  });

  test('dynamic stretches only what is longer than max_position_embeddings, which no sequence is here', () => {
    expect(read('LlamaForCausalLM', { rope_scaling: { type: 'dynamic', factor: 4 } })).toEqual(
      read('LlamaForCausalLM'),
    );
  });

  test("yarn's attention factor: told, of two scales, or of the factor; the factor that of contexts where none is told", () => {
    const factorOf = (more: Keys) =>
      read('LlamaForCausalLM', { rope_scaling: { type: 'yarn', factor: 4, ...more } }).ropes[0]!.factor;
    expect(factorOf({})).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
    // The reference reads neither.
    expect(factorOf({ finetuned: true, attn_factor: 0.5 })).toBe(factorOf({}));
    expect(factorOf({ attention_factor: 1.5 })).toBe(1.5);
    const two = (1 + 0.1 * Math.log(4)) / (1 + 0.05 * Math.log(4));
    expect(factorOf({ mscale: 1, mscale_all_dim: 0.5 })).toBeCloseTo(two, 12);
    // One of them alone counts for nothing.
    expect(factorOf({ mscale: 0.5 })).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
    expect(factorOf({ factor: null, original_max_position_embeddings: 2048 })).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
  });

  test("Gemma 3's scaling touches the layers without a window only", () => {
    const [local, global] = read('Gemma3ForCausalLM').ropes;
    const scaled = read('Gemma3ForCausalLM', { rope_scaling: { rope_type: 'linear', factor: 8 } });
    expect(scaled.ropes[0]).toEqual(local);
    expect([...scaled.ropes[1]!.frequencies]).toEqual([...global!.frequencies.map((frequency) => frequency / 8)]);
    expect(ropes(scaled)).toEqual([0, 0, 0, 0, 0, 1, 0, 0]);
    const nested = {
      full_attention: { rope_type: 'linear', factor: 8, rope_theta: 1e6 },
      sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
    };
    expect(read('Gemma3ForCausalLM', { rope_parameters: nested })).toEqual(scaled);
    expect(refusal('Gemma3ForCausalLM', { rope_parameters: { rope_type: 'default' } })).toMatch(
      /rope_parameters\.rope_type is "default", which is no type of layer/,
    );
  });

  test('SmolLM3 rotates where its list says 1, or in three of four layers', () => {
    expect(ropes(read('SmolLM3ForCausalLM'))).toEqual([0, 0, 0, undefined, 0, 0, 0, undefined]);
    const no_rope_layers = [1, 0, 1, 0, 1, 0, 1, 1];
    const listed = ropes(read('SmolLM3ForCausalLM', { no_rope_layers, no_rope_layer_interval: 2 }));
    expect(listed).toEqual(no_rope_layers.map((rotates) => (rotates ? 0 : undefined)));
    expect(refusal('SmolLM3ForCausalLM', { no_rope_layers: [1, 0] })).toMatch(/no_rope_layers is \[1,0\], not one/);
  });

  describe("Phi-3's longrope", () => {
    const factors = { short_factor: [1, 2, 3, 4], long_factor: [5, 6, 7, 8] };
    const long = { max_position_embeddings: 16_384, original_max_position_embeddings: 4096 };
    const rope = (more: Keys, own: Keys = {}) =>
      read('Phi3ForCausalLM', { rope_scaling: { type: 'longrope', ...factors, ...own }, ...more }).ropes[0]!;
    const divisors = (config: { readonly frequencies: Float32Array }) =>
      [...config.frequencies].map((frequency, pair) => Math.round(10_000 ** (-pair / 4) / frequency));

    test('takes its factors once, by the context of the model', () => {
      expect(divisors(rope(long))).toEqual([5, 6, 7, 8]);
      expect(divisors(rope({ max_position_embeddings: 4096 }))).toEqual([1, 2, 3, 4]);
      // A caller that wants less context than the file has gets the short ones.
      const text = { ...BASE, architectures: ['Phi3ForCausalLM'], ...long, rope_scaling: { type: 'su', ...factors } };
      const config = parseModelConfig(JSON.stringify(text), 'config.json');
      const short = architectureOf(config).readConfig({ ...config, contextLength: 4096 });
      expect(divisors(short.ropes[0]!)).toEqual([1, 2, 3, 4]);
      expect(short.ropes[0]!.factor).toBe(rope(long).factor);
    });

    test('the original context at the top level wins, and its own is 4096 where none is told', () => {
      expect(rope(long, { original_max_position_embeddings: 16_384 })).toEqual(rope(long));
      const { max_position_embeddings } = long;
      expect(rope({ max_position_embeddings })).toEqual(rope(long));
      const own = { original_max_position_embeddings: 16_384 };
      expect(divisors(rope({ max_position_embeddings }, own))).toEqual([1, 2, 3, 4]);
      expect(rope(long).factor).toBeCloseTo(Math.sqrt(1 + Math.log(4) / Math.log(4096)), 12);
      expect(rope(long, { attention_factor: 1.5 }).factor).toBe(1.5);
    });

    test('has a factor for each rotated pair', () => {
      const half = { ...long, partial_rotary_factor: 0.5 };
      expect(() => rope(half)).toThrow(/short_factor is \[1,2,3,4\], not 2 positive numbers/);
      const config = rope(half, { short_factor: [1, 1], long_factor: [2, 2] });
      expect([config.rotated, config.frequencies.length]).toEqual([4, 2]);
      expect(refusal('Phi3ForCausalLM', { partial_rotary_factor: 0.4 })).toMatch(/3 of a head's 8 numbers/);
      expect(refusal('Phi3ForCausalLM', { partial_rotary_factor: 2 })).toMatch(/partial_rotary_factor is 2/);
      // Others rotate whole heads and say nothing of it.
      expect(refusal('LlamaForCausalLM', { partial_rotary_factor: 0.5 })).toMatch(
        /partial_rotary_factor is 0\.5; only 1 is served/,
      );
    });
  });
});
