import { dequantise, isGgmlType } from './ggml-types.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { llama3Scaling } from './llama3-rope.ts';

type Raw = Readonly<Record<string, unknown>>;

/** Factors by which Llama 3's rope divides its frequencies; they take the place of metadata. */
export const ROPE_FACTORS = 'rope_freqs.weight';

/** Phi-3's factors of short and long contexts. */
export const SHORT_FACTORS = 'rope_factors_short.weight';
export const LONG_FACTORS = 'rope_factors_long.weight';

/** Hugging Face's rope_scaling, for heads of which `rotated` numbers are rotated. */
export async function ggufRopeScaling(keys: GgufKeys, rotated: number, theta: number): Promise<Raw | null> {
  const { gguf } = keys;
  const kind = keys.string('rope.scaling.type') ?? 'none';
  const linear = keys.number('rope.scale_linear');
  const factor = keys.number('rope.scaling.factor') ?? linear ?? 1;
  const original = keys.count('rope.scaling.original_context_length');
  const older = keys.number('rope.scaling.attn_factor');
  const attention = keys.number('rope.scaling.yarn_attn_factor') ?? older;
  const fast = keys.number('rope.scaling.yarn_beta_fast');
  const slow = keys.number('rope.scaling.yarn_beta_slow');
  keys.same('rope.scaling.yarn_ext_factor', 1, 'the whole ramp');
  // Whether the stretch was trained, which changes nothing here.
  keys.boolean('rope.scaling.finetuned');
  const told = {
    ...(original === undefined ? {} : { original_max_position_embeddings: original }),
    ...(attention === undefined ? {} : { attention_factor: attention }),
  };
  if (gguf.tensors.has(LONG_FACTORS) || gguf.tensors.has(SHORT_FACTORS)) {
    if (kind !== 'none' && kind !== 'longrope') keys.fail('rope.scaling.type', `is ${kind}, beside ${LONG_FACTORS}`);
    const [short, long] = [await factorsOf(keys, SHORT_FACTORS), await factorsOf(keys, LONG_FACTORS)];
    return { rope_type: 'longrope', short_factor: short, long_factor: long, ...told };
  }
  if (kind !== 'yarn' && attention !== undefined && attention !== 1) {
    const key = older === undefined ? 'yarn_attn_factor' : 'attn_factor';
    keys.fail(`rope.scaling.${key}`, `is ${attention}, of rope.scaling.type ${JSON.stringify(kind)}`);
  }
  if (gguf.tensors.has(ROPE_FACTORS)) {
    if (kind !== 'none') keys.fail('rope.scaling.type', `is ${kind}, beside ${ROPE_FACTORS}`);
    return (
      llama3Scaling(await factorsOf(keys, ROPE_FACTORS), rotated, theta) ??
      gguf.metadata.fail(ROPE_FACTORS, "holds factors that are not those of Llama 3's rope")
    );
  }
  if (kind === 'linear' || (kind === 'none' && linear !== undefined)) {
    return factor === 1 ? null : { rope_type: 'linear', factor };
  }
  if (kind === 'none') return null;
  if (kind !== 'yarn') keys.fail('rope.scaling.type', `is ${JSON.stringify(kind)}; known: none, linear, yarn`);
  return {
    rope_type: 'yarn',
    factor,
    ...told,
    // Here it is whole; what the file has is multiplied by what the stretch asks for (ggml: rope_yarn).
    ...(attention === undefined ? {} : { attention_factor: attention * (1 + 0.1 * Math.log(factor)) }),
    ...(fast === undefined ? {} : { beta_fast: fast }),
    ...(slow === undefined ? {} : { beta_slow: slow }),
  };
}

async function factorsOf({ gguf }: GgufKeys, name: string): Promise<readonly number[]> {
  const tensor = gguf.tensors.get(name) ?? gguf.metadata.fail(name, 'is missing');
  return isGgmlType(tensor.dtype) ? [...dequantise(tensor.dtype, await gguf.read(tensor))] : [];
}
