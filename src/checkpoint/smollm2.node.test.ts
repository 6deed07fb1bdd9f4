import { type FileHandle, open } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import golden from '../testing/golden/smollm2-gguf.json' with { type: 'json' };
import { vectors } from '../testing/golden/smollm2-tokenizer.json' with { type: 'json' };
import type { ByteSource } from './byte-source.ts';
import { dequantise, type GgmlType } from './ggml-types.ts';
import { type Gguf, readGguf } from './gguf.ts';
import { type GgufModel, openGguf } from './open-gguf.ts';
import { readTokenizer } from './tokenizer.ts';

const file = await open(new URL(`../../models/smollm2/${golden.file}`, import.meta.url)).catch(() => undefined);

afterAll(() => file?.close());

/** Reads of a file on disk, the longest remembered. */
class FileSource implements ByteSource {
  readonly name = golden.file;
  readonly size = golden.bytes;
  readonly #file: FileHandle;
  longest = 0;

  constructor(handle: FileHandle) {
    this.#file = handle;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    this.longest = Math.max(this.longest, length);
    const { buffer, bytesRead } = await this.#file.read(new Uint8Array(length), 0, length, offset);
    return buffer.subarray(0, bytesRead);
  }
}

describe.skipIf(file === undefined)('SmolLM2-135M-Instruct, Q4_1 (fetched by npm run model:smollm2)', () => {
  let source: FileSource;
  let gguf: Gguf;
  let model: GgufModel;
  beforeAll(async () => {
    expect((await file!.stat()).size).toBe(golden.bytes);
    source = new FileSource(file!);
    gguf = await readGguf(source);
    model = await openGguf(source);
  });

  it('has the golden metadata', () => {
    for (const [key, value] of Object.entries(golden.metadata)) {
      const is = gguf.metadata.get(key);
      if (typeof value === 'string' && value.startsWith('array of ')) {
        expect([key, (is as ArrayLike<unknown>).length]).toEqual([key, Number(value.slice(9))]);
      } else {
        // Singles in the file are written shortest in the golden values.
        expect([key, typeof is === 'number' ? Math.fround(is) : is]).toEqual([
          key,
          typeof value === 'number' ? Math.fround(value) : value,
        ]);
      }
    }
    expect([...gguf.metadata.keys].filter((key) => !Object.hasOwn(golden.metadata, key))).toEqual([]);
  });

  it('has the golden tensors, types and shapes', () => {
    expect(gguf.tensors.size).toBe(golden.tensor_count);
    const types: Record<string, number> = {};
    const byName: Record<string, Record<string, number>> = {};
    for (const { name, dtype } of gguf.tensors.values()) {
      types[dtype] = (types[dtype] ?? 0) + 1;
      const pattern = name.replace(/^blk\.\d+/, 'blk.N');
      byName[pattern] ??= {};
      byName[pattern][dtype] = (byName[pattern][dtype] ?? 0) + 1;
    }
    expect(types).toEqual(golden.tensor_types);
    expect(byName).toEqual(golden.types_by_name);
    for (const [name, sizes] of Object.entries(golden.shapes_ggml_order)) {
      expect(gguf.tensors.get(name)!.shape.toReversed()).toEqual(sizes);
    }
  });

  it('reads every tensor, one at a time: finite values of a size that weights have', async () => {
    source.longest = 0;
    let largest = 0;
    for (const tensor of model.checkpoint.tensors.values()) {
      largest = Math.max(largest, tensor.byteLength);
      const bytes = await model.checkpoint.read(tensor);
      // The embedding's first rows stand for all 28 million values.
      const rows = Math.min(tensor.shape[0]!, 2048);
      const part = bytes.subarray(0, (bytes.length / tensor.shape[0]!) * rows);
      const values = dequantise(tensor.dtype as GgmlType, part);
      let most = 0;
      for (const value of values) most = Math.max(most, Math.abs(value));
      expect(most).toBeGreaterThan(0.01);
      expect(most).toBeLessThan(100);
    }
    expect(model.checkpoint.tensors.size).toBe(golden.tensor_count);
    expect(source.longest).toBe(largest);
  }, 60_000);

  it('gives the golden ids of every text', () => {
    const tokenizer = readTokenizer(model.tokenizerJson(), model.tokenizerConfigJson(), golden.file);
    for (const { text, ids } of vectors) {
      expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
      expect([text, tokenizer.encodeBare(text)]).toEqual([text, ids]);
    }
  });

  it('gives back the bytes of every text, and knows the special tokens', () => {
    const bytes = model.tokens;
    for (const { text, ids } of vectors) {
      const joined = Uint8Array.from(ids.flatMap((id) => [...bytes.bytes(id)]));
      expect(new TextDecoder().decode(joined)).toBe(text);
    }
    const special = Array.from({ length: bytes.vocabSize }, (_, id) => id).filter((id) => bytes.isSpecial(id));
    expect(special.map((id) => [id, new TextDecoder().decode(bytes.bytes(id))])).toEqual(golden.special_tokens);
  });

  it('has the template, the ends and the sizes of the model', () => {
    const { metadata } = golden;
    expect(JSON.parse(model.tokenizerConfigJson())).toMatchObject({
      ...{ bos_token: '<|im_start|>', eos_token: '<|im_end|>', pad_token: '<|im_end|>', add_bos_token: false },
      chat_template: metadata['tokenizer.chat_template'],
    });
    expect(model.config).toMatchObject({ eosTokenIds: [2, 0], bosTokenId: 1, padTokenId: 2, vocabSize: 49_152 });
    expect(model.config.raw).toMatchObject({
      ...{ num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3, head_dim: 64 },
      ...{ hidden_size: 576, intermediate_size: 1536, max_position_embeddings: 8192, rope_theta: 100_000 },
      ...{ rms_norm_eps: 1e-5, tie_word_embeddings: true, rope_scaling: null },
    });
  });
});
