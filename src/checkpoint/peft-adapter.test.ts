import { describe, expect, it } from 'vitest';
import { readTestFile } from '../testing/read-file.ts';
import { bytesSource } from './byte-source.ts';
import { type AdaptableMatrix, readPeftAdapter } from './peft-adapter.ts';
import { parsePeftConfig } from './peft-config.ts';
import { openSafetensors } from './safetensors.ts';
import { writeSafetensors } from './testing/write-safetensors.ts';
import { textPartOf } from './text-part.ts';

const golden = (file: string) => readTestFile(`src/testing/golden/lora/${file}`);
const goldenText = async (file: string) => new TextDecoder().decode(await golden(file));

/** Those of the golden adapters' base. */
const LLAMA: readonly AdaptableMatrix[] = [0, 1, 2].flatMap((layer) =>
  Object.entries({
    'self_attn.q_proj': [64, 64],
    'self_attn.k_proj': [64, 32],
    'self_attn.v_proj': [64, 32],
    'self_attn.o_proj': [64, 64],
    'mlp.gate_proj': [64, 172],
    'mlp.up_proj': [64, 172],
    'mlp.down_proj': [172, 64],
  }).map(([name, [inputs, outputs]]) => ({
    module: `model.layers.${layer}.${name}`,
    inputs: inputs!,
    outputs: outputs!,
  })),
);

/** A small adapter of one matrix, whose config `more` changes. */
const CONFIG = { peft_type: 'LORA', r: 2, lora_alpha: 4, target_modules: ['q'] };
const MATRICES = [
  { module: 'layers.0.q', inputs: 3, outputs: 2 },
  { module: 'layers.1.q', inputs: 3, outputs: 2 },
];
const parse = (more: object = {}) => parsePeftConfig(JSON.stringify({ ...CONFIG, ...more }), 'adapter_config.json');

/** Tensors of ones, in a file. */
async function fileOf(shapes: Readonly<Record<string, readonly number[]>>, dtype = 'F32', data?: Uint8Array) {
  let at = 0;
  const header = Object.entries(shapes).map(([name, shape]) => {
    const bytes = shape.reduce((size, one) => size * one, 1) * (dtype === 'F32' ? 4 : 2);
    at += bytes;
    return [name, { dtype, shape, data_offsets: [at - bytes, at] }];
  });
  const bytes = data ?? new Uint8Array(Float32Array.from({ length: at / 4 }, () => 1).buffer);
  return openSafetensors(bytesSource('adapter.safetensors', writeSafetensors(Object.fromEntries(header), bytes)));
}

const A = (layer: number) => `base_model.model.layers.${layer}.q.lora_A.weight`;
const B = (layer: number) => `base_model.model.layers.${layer}.q.lora_B.weight`;
const BOTH = { [A(0)]: [2, 3], [B(0)]: [2, 2], [A(1)]: [2, 3], [B(1)]: [2, 2] };

const read = async (more: object, shapes: Readonly<Record<string, readonly number[]>> = BOTH) =>
  readPeftAdapter(parse(more), await fileOf(shapes), MATRICES, 8);

describe('a PEFT adapter', () => {
  it.each(['llama-r4-all', 'llama-r8-qv-rslora'])(
    '%s is read, with the scaling PEFT gives each module',
    async (name) => {
      const config = parsePeftConfig(await goldenText(`${name}/adapter_config.json`), 'adapter_config.json');
      const file = await openSafetensors(bytesSource('a', await golden(`${name}/adapter_model.safetensors`)));
      const updates = await readPeftAdapter(config, file, LLAMA, 64);
      const said = JSON.parse(await goldenText(`${name}/golden.json`)) as {
        r: number;
        scaling: Record<string, number>;
      };
      expect([...updates.keys()].sort()).toEqual(Object.keys(said.scaling).sort());
      for (const [module, { rank, b }] of updates) {
        expect(rank).toBe(said.r);
        const tensor = file.tensors.get(`base_model.model.${module}.lora_B.weight`)!;
        const raw = new Float32Array((await file.read(tensor)).slice().buffer);
        b.forEach((value, i) => {
          expect(value).toBeCloseTo(raw[i]! * said.scaling[module]!, 5);
        });
      }
    },
  );

  it('may give modules ranks and alphas of their own, by their names or ends of them', async () => {
    const updates = await read(
      { rank_pattern: { 'layers.1.q': 4 }, alpha_pattern: { '^layers\\.0\\.q$': 10 } },
      { ...BOTH, [A(1)]: [4, 3], [B(1)]: [2, 4] },
    );
    expect([...updates].map(([, { rank, b }]) => [rank, b[0]])).toEqual([
      [2, 5],
      [4, 1],
    ]);
    const rooted = await read({ use_rslora: true });
    expect(rooted.get('layers.0.q')!.b[0]).toBeCloseTo(4 / Math.sqrt(2), 6);
  });

  it('may adapt some layers, all of them, or those that a pattern met', async () => {
    const first = { [A(0)]: [2, 3], [B(0)]: [2, 2] };
    expect((await read({ layers_to_transform: [0], layers_pattern: 'layers' }, first)).size).toBe(1);
    expect((await read({ layers_to_transform: 0 }, first)).size).toBe(1);
    expect((await read({ target_modules: 'all-linear' })).size).toBe(2);
    expect((await read({ target_modules: '.*0\\.(q|k)' }, first)).size).toBe(1);
    await expect(read({ layers_to_transform: [1] }, first)).rejects.toThrow(/layers\.0\.q\.lora_A.*doesn't adapt/);
  });

  it.each(['model.language_model.', 'language_model.model.'])(
    'of a model that reads images too has the names of its text part, %s, and what it adds to other parts is not read',
    async (text) => {
      const matrices = MATRICES.map((matrix) => ({ ...matrix, module: `model.${matrix.module}` }));
      const own = (name: string) => name.replace('base_model.model.', `base_model.model.${text}`);
      const vision = 'base_model.model.model.vision_tower.encoder.layers.0.out_proj.lora_';
      const shapes = Object.fromEntries(Object.entries(BOTH).map(([name, shape]) => [own(name), shape]));
      const file = await fileOf({ ...shapes, [`${vision}A.weight`]: [2, 7], [`${vision}B.weight`]: [5, 2] });
      const part = textPartOf(['Gemma3ForConditionalGeneration']);
      for (const target_modules of [['q', 'out_proj'], [`${text}layers.0.q`, `${text}layers.1.q`, 'out_proj'], '.*']) {
        const updates = await readPeftAdapter(parse({ target_modules }), file, matrices, 8, part);
        expect([...updates.keys()]).toEqual(['model.layers.0.q', 'model.layers.1.q']);
      }
      const unmet = readPeftAdapter(parse({ target_modules: ['q', 'out_proj', 'fc9'] }), file, matrices, 8, part);
      await expect(unmet).rejects.toThrow(/adapting fc9 is not served/);
      await expect(readPeftAdapter(parse(), file, matrices, 8)).rejects.toThrow(/is not served/);
    },
  );

  it('has floats of 16 bits too', async () => {
    for (const [dtype, one] of [
      ['F16', 0x3c00],
      ['BF16', 0x3f80],
    ] as const) {
      const data = new Uint8Array(new Uint16Array(20).fill(one).buffer);
      const updates = await readPeftAdapter(parse(), await fileOf(BOTH, dtype, data), MATRICES, 8);
      expect([...updates.get('layers.1.q')!.a]).toEqual(new Array(6).fill(1));
    }
    const infinite = new Uint8Array(new Uint16Array(20).fill(0x7c00).buffer);
    const bad = readPeftAdapter(parse(), await fileOf(BOTH, 'F16', infinite), MATRICES, 8);
    await expect(bad).rejects.toThrow(/layers\.0\.q\.lora_B.*infinity/);
  });

  it.each([
    [{ peft_type: 'IA3' }, /peft_type is "IA3"/],
    [{ bias: 'all' }, /bias is "all"/],
    [{ use_dora: true }, /use_dora/],
    [{ lora_bias: true }, /lora_bias/],
    [{ modules_to_save: ['lm_head'] }, /modules_to_save/],
    [{ exclude_modules: ['q'] }, /exclude_modules/],
    // Experts as PEFT adapts those that lie in one tensor; token rows; layers that repeat others; adapters from a token on; grouped inputs.
    [{ target_parameters: ['mlp.experts.gate_up_proj'] }, /target_parameters is \["mlp\.experts\.gate_up_proj"\]/],
    [{ trainable_token_indices: [1, 2] }, /trainable_token_indices/],
    [{ layer_replication: [[0, 2]] }, /layer_replication/],
    [{ alora_invocation_tokens: [5] }, /alora_invocation_tokens/],
    [{ use_qalora: true }, /use_qalora/],
    [{ some_new_setting: 1 }, /some_new_setting is 1/],
    [{ init_lora_weights: 'pissa' }, /init_lora_weights is "pissa"/],
    [{ r: 0 }, /r is 0, not a rank/],
    [{ r: undefined }, /r is undefined/],
    [{ lora_alpha: '4' }, /lora_alpha is "4"/],
    [{ use_rslora: 'yes' }, /use_rslora/],
    [{ target_modules: [] }, /target_modules is \[\]/],
    [{ alpha_pattern: { '(a+)+': 1 } }, /alpha_pattern has "\(a\+\)\+"/],
    [{ rank_pattern: { q: 1.5 } }, /rank_pattern's "q" is 1.5/],
    [{ layers_pattern: 'h' }, /layers_pattern is set without/],
    [{ layers_to_transform: [-1] }, /layers_to_transform is \[-1\]/],
  ])('with %j is refused by name', (more, message) => {
    expect(() => parse(more)).toThrow(message);
  });

  it.each([
    [{}, { ...BOTH, 'base_model.model.layers.0.q.weight': [2, 3] }, /layers\.0\.q\.weight is none of a LoRA/],
    [{}, { ...BOTH, 'base_model.model.lm_head.lora_A.weight': [2, 3] }, /adapting lm_head is not served/],
    [
      {},
      { ...BOTH, 'base_model.model.layers.0.mlp.experts.3.gate_proj.lora_A.weight': [2, 3] },
      /adapting layers\.0\.mlp\.experts\.3\.gate_proj is not served/,
    ],
    [
      {},
      { ...BOTH, 'base_model.model.layers.0.q.lora_magnitude_vector': [2] },
      /lora_magnitude_vector is none of a LoRA/,
    ],
    [{ target_modules: ['q', 'embed_tokens'] }, BOTH, /target_modules: adapting embed_tokens is not served/],
    [{ r: 9 }, BOTH, /layers\.0\.q: rank 9, at most 8/],
    [{}, { [A(0)]: [2, 3], [B(0)]: [2, 2] }, /no tensors of layers\.1\.q/],
    [{}, { [A(0)]: [2, 3], [A(1)]: [2, 3], [B(1)]: [2, 2] }, /layers\.0\.q has a lora_A and no lora_B/],
    [{}, { ...BOTH, [A(0)]: [2, 4] }, /layers\.0\.q\.lora_A\.weight has shape \[2, 4\], expected \[2, 3\]/],
    [{}, { ...BOTH, [B(0)]: [2, 1] }, /lora_B\.weight has shape \[2, 1\], expected \[2, 2\]/],
  ])('with %j and tensors %j is refused by name', async (more, shapes, message) => {
    await expect(read(more, shapes as unknown as typeof BOTH)).rejects.toThrow(message);
  });

  it('of a file that is cut or of integers is refused', async () => {
    await expect(readPeftAdapter(parse(), await fileOf({}), MATRICES, 8)).rejects.toThrow(/no tensors/);
    const integers = readPeftAdapter(parse(), await fileOf(BOTH, 'I16', new Uint8Array(40)), MATRICES, 8);
    await expect(integers).rejects.toThrow(/is I16/);
  });
});
