import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import bundledConfig from '../../models/stories260K/config.json' with { type: 'json' };
import golden from '../testing/golden/gguf/stories260K.json' with { type: 'json' };
import cases from '../testing/golden/stories260K-cases.json' with { type: 'json' };
import { bytesSource } from './byte-source.ts';
import type { Checkpoint, TensorInfo } from './checkpoint.ts';
import { dequantise, GGML_FORMATS, type GgmlType } from './ggml-types.ts';
import { decodeHalf } from './half.ts';
import { type GgufModel, openGguf } from './open-gguf.ts';
import { openSafetensors } from './safetensors.ts';
import { readTokenBytes } from './token-bytes.ts';
import { readTokenizer } from './tokenizer.ts';

const bytes = (path: string) => new Uint8Array(readFileSync(new URL(`../../${path}`, import.meta.url)));
const text = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const bundled = await openSafetensors(bytesSource('m.safetensors', bytes('models/stories260K/model.safetensors')));
const open = (name: string): Promise<GgufModel> =>
  openGguf(bytesSource(`${name}.gguf`, bytes(`src/testing/golden/gguf/${name}.gguf`)));

async function floats(checkpoint: Checkpoint, tensor: TensorInfo): Promise<Float32Array> {
  return dequantise(tensor.dtype as GgmlType, await checkpoint.read(tensor));
}

/**
 * How far each value of blocks may be from what was quantised, in steps of the block's scale: half a step where the
 * scale spans the range, a whole one where it follows from the largest value alone; and a little more, since the scale
 * is rounded to a half itself. F16 is off by a rounding of the value.
 */
const STEPS: Partial<Record<GgmlType, number>> = { F32: 0, Q8_0: 0.57, Q4_0: 1.01, Q5_0: 1.01, Q4_1: 0.52 };

function tolerance(type: GgmlType, block: DataView, index: number, value: number): number {
  if (type === 'F16') return Math.abs(value) * 2 ** -11 + 2 ** -25;
  const { values, bytes, halves } = GGML_FORMATS[type];
  const scale = halves.length > 0 ? decodeHalf(block.getUint16(Math.floor(index / values) * bytes, true)) : 0;
  return Math.abs(scale) * STEPS[type]!;
}

describe.each(Object.entries(golden.files))('%s', (name, facts) => {
  it('has the bundled tensors, under the same names and shapes, and as many of each type as the golden file says', async () => {
    const { checkpoint } = await open(name);
    const shapes = ({ tensors }: Checkpoint) => [...tensors].map(([key, { shape }]) => [key, shape.join()]).sort();
    // The bundled file has its tied head as well.
    expect(shapes(checkpoint)).toEqual(shapes(bundled).filter(([key]) => key !== 'lm_head.weight'));
    const types: Record<string, number> = {};
    for (const { dtype } of checkpoint.tensors.values()) types[dtype] = (types[dtype] ?? 0) + 1;
    expect(types).toEqual(facts.tensor_types);
  });

  it("has the bundled values within each type's error, the largest error being the golden one", async () => {
    const { checkpoint } = await open(name);
    let largest = 0;
    for (const tensor of checkpoint.tensors.values()) {
      const raw = await checkpoint.read(tensor);
      const block = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
      const values = await floats(checkpoint, tensor);
      const expected = await floats(bundled, bundled.tensors.get(tensor.name)!);
      expect(values.length).toBe(expected.length);
      let outside = 0;
      values.forEach((value, i) => {
        const error = Math.abs(value - expected[i]!);
        largest = Math.max(largest, error);
        if (!(error <= tolerance(tensor.dtype as GgmlType, block, i, expected[i]!))) outside++;
      });
      expect([tensor.name, outside]).toEqual([tensor.name, 0]);
    }
    expect(largest).toBeCloseTo(facts.max_weight_error, 6);
  });

  it('has the bundled config', async () => {
    const { config } = await open(name);
    const { torch_dtype: _, eos_token_id, ...same } = bundledConfig;
    expect(config.raw).toMatchObject(same);
    expect(config.eosTokenIds).toEqual([eos_token_id]);
  });

  it('has the bundled tokenizer: merges, bytes of every token, ids of every prompt', async () => {
    const model = await open(name);
    const json = text('models/stories260K/tokenizer.json');
    expect(JSON.parse(model.tokenizerJson())).toEqual(JSON.parse(json));
    const expected = readTokenBytes(json, 'tokenizer.json');
    expect([model.tokens.vocabSize, model.tokens.stripStart]).toEqual([expected.vocabSize, expected.stripStart]);
    for (let id = 0; id < 512; id++) {
      expect(model.tokens.bytes(id)).toEqual(expected.bytes(id));
      expect(model.tokens.isSpecial(id)).toBe(expected.isSpecial(id));
    }
    const tokenizer = readTokenizer(model.tokenizerJson(), model.tokenizerConfigJson(), name);
    for (const { prompt, bos, ids } of cases.cases) {
      expect(bos ? tokenizer.encode(prompt) : tokenizer.encodeBare(prompt)).toEqual(ids);
    }
    for (const { text: prompt, ids } of facts.cases) expect(tokenizer.encode(prompt)).toEqual(ids);
  });
});

it('reads a file whose bytes are a part of one of Node’s pooled buffers', async () => {
  const name = 'stories260K-q8_0';
  const file = bytes(`src/testing/golden/gguf/${name}.gguf`);
  const pool = Buffer.alloc(file.length + 3);
  pool.set(file, 3);
  const model = await openGguf(bytesSource(`${name}.gguf`, pool.subarray(3)));
  expect(model.configJson).toEqual((await open(name)).configJson);
  expect(model.tokenizerJson()).toEqual((await open(name)).tokenizerJson());
});
