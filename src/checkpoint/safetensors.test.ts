import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesSource } from './byte-source.ts';
import { CheckpointError } from './checkpoint.ts';
import { parseGenerationConfig, parseModelConfig } from './model-config.ts';
import { openSafetensors } from './safetensors.ts';
import { writeSafetensors as file } from './testing/write-safetensors.ts';

const open = (bytes: Uint8Array) => openSafetensors(bytesSource('m.safetensors', bytes));

describe('safetensors', () => {
  it('gives each tensor its bytes, and ranges of them', async () => {
    const header = {
      __metadata__: { format: 'pt' },
      b: { dtype: 'BF16', shape: [3], data_offsets: [8, 14] },
      a: { dtype: 'F32', shape: [2, 1], data_offsets: [0, 8] },
      empty: { dtype: 'F32', shape: [0, 4], data_offsets: [8, 8] },
    };
    const checkpoint = await open(
      file(
        header,
        Uint8Array.from({ length: 14 }, (_, i) => i),
      ),
    );
    expect([...checkpoint.tensors.keys()].sort()).toEqual(['a', 'b', 'empty']);
    expect([...(await checkpoint.read(checkpoint.tensors.get('b')!))]).toEqual([8, 9, 10, 11, 12, 13]);
    expect([...(await checkpoint.read(checkpoint.tensors.get('a')!, 4, 2))]).toEqual([4, 5]);
    await expect(checkpoint.read(checkpoint.tensors.get('a')!, 4, 5)).rejects.toThrow(RangeError);
  });

  const a = (entry: object) => ({ a: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...entry } });
  it.each([
    ['a file of seven bytes', new Uint8Array(7), /too few/],
    ['a header longer than the file', file({}, 0, 1n << 62n), /claims/],
    ['a header that is no JSON', file('{"a":'), /not JSON/],
    ['a header that is a list', file([]), /not a JSON object/],
    ['an unknown dtype', file(a({ dtype: 'F31' }), 8), /"a".*F31/],
    ['an inherited name as dtype', file(a({ dtype: 'constructor' }), 8), /"a".*constructor/],
    ['a negative size', file(a({ shape: [-2] }), 8), /"a".*shape/],
    ['sizes that do not fit the shape', file(a({ shape: [3] }), 8), /"a".*takes 12/],
    ['absurd sizes', file(a({ shape: [9e15, 9e15] }), 8), /"a"/],
    ['three offsets', file(a({ data_offsets: [0, 8, 8] }), 8), /"a".*data_offsets/],
    ['a cut-off file', file(a({}), 7), /"a".*cut off/],
    ['no entry', file({ a: null }), /"a"/],
    ['overlapping tensors', file({ ...a({}), b: { dtype: 'F32', shape: [1], data_offsets: [4, 8] } }, 8), /overlap/],
  ])('refuses %s in one sentence that names the file', async (_, bytes, reason) => {
    const error = await open(bytes).then(
      () => undefined,
      (e: unknown) => e,
    );
    expect(error).toBeInstanceOf(CheckpointError);
    expect((error as Error).message).toMatch(/^m\.safetensors: /);
    expect((error as Error).message).toMatch(reason);
  });

  it('opens or refuses any bytes, and never fails otherwise', async () => {
    const valid = file({ ...a({}), b: { dtype: 'F16', shape: [4], data_offsets: [8, 16] } }, 16);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 6 }),
        fc.nat(valid.length),
        async (edits, length) => {
          const bytes = valid.slice();
          for (const [at, value] of edits) bytes[at] = value;
          await open(bytes.subarray(0, length)).catch((error: unknown) =>
            expect(error).toBeInstanceOf(CheckpointError),
          );
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('configs', () => {
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: 5,
    max_position_embeddings: 8,
  };
  const parse = (extra: object) =>
    parseModelConfig(JSON.stringify({ ...config, hidden_size: 4, ...extra }), 'config.json');

  it('takes one EOS id, a list, or none', () => {
    expect(parse({ eos_token_id: 2 }).eosTokenIds).toEqual([2]);
    expect(parse({ eos_token_id: [1, 2], bos_token_id: 1, pad_token_id: -1 })).toMatchObject({
      eosTokenIds: [1, 2],
      bosTokenId: 1,
      padTokenId: undefined,
    });
    expect(parse({ eos_token_id: null }).eosTokenIds).toEqual([]);
    expect(parseGenerationConfig('{}', 'g.json').eosTokenIds).toBeUndefined();
  });

  it.each([
    [{ vocab_size: 0 }, /config\.json: vocab_size/],
    [{ vocab_size: '5' }, /vocab_size/],
    [{ eos_token_id: 'x' }, /eos_token_id/],
    [{ architectures: [] }, /architectures/],
    [{ model_type: 1 }, /model_type/],
  ])('refuses %j naming the key', (extra, reason) => {
    expect(() => parse(extra)).toThrow(reason);
  });
});
