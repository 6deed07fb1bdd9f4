import { expect, it } from 'vitest';
import { bytesSource } from './byte-source.ts';
import { CheckpointError } from './checkpoint.ts';
import { openShardedSafetensors, SAFETENSORS_INDEX } from './sharded-safetensors.ts';
import { writeSafetensors } from './testing/write-safetensors.ts';

const f32 = (from: number, to: number) => ({ dtype: 'F32', shape: [(to - from) / 4], data_offsets: [from, to] });
const FILES: Readonly<Record<string, Uint8Array>> = {
  'model-00001-of-00002.safetensors': writeSafetensors(
    { a: f32(0, 8), extra: f32(8, 12) },
    Uint8Array.from({ length: 12 }, (_, i) => i),
  ),
  'model-00002-of-00002.safetensors': writeSafetensors({ b: f32(0, 4) }, Uint8Array.of(100, 101, 102, 103)),
  'broken.safetensors': writeSafetensors({ c: f32(0, 4) }, 3),
};
const [FIRST, SECOND] = Object.keys(FILES) as [string, string];

function open(index: unknown) {
  return openShardedSafetensors(
    typeof index === 'string' ? index : JSON.stringify(index),
    SAFETENSORS_INDEX,
    (name) => {
      const bytes = FILES[name];
      return bytes && bytesSource(name, bytes);
    },
  );
}

it('gives the tensors of all files, each from its own', async () => {
  const checkpoint = await open({ metadata: { total_size: 12 }, weight_map: { b: SECOND, a: FIRST } });
  expect([...checkpoint.tensors.keys()].sort()).toEqual(['a', 'b']);
  expect([...(await checkpoint.read(checkpoint.tensors.get('a')!, 2, 4))]).toEqual([2, 3, 4, 5]);
  expect([...(await checkpoint.read(checkpoint.tensors.get('b')!))]).toEqual([100, 101, 102, 103]);
  const unknown = { name: 'extra', dtype: 'F32', shape: [1], offset: 0, byteLength: 4 };
  await expect(checkpoint.read(unknown)).rejects.toThrow(/no tensor "extra"/);
});

it.each<[string, unknown, RegExp]>([
  ['no JSON', '{', /index\.json: not JSON/],
  ['null', null, /index\.json: weight_map is not an object/],
  ['no map', { weight_map: ['a'] }, /index\.json: weight_map is not an object/],
  ['an empty map', { weight_map: {} }, /index\.json: weight_map names no tensor/],
  ['a file elsewhere', { weight_map: { a: '../m.safetensors' } }, /"a" is in "\.\.\/m\.safetensors"/],
  ['a file of another kind', { weight_map: { a: 'm.bin' } }, /"a" is in "m\.bin"/],
  ['a file that is none', { weight_map: { a: 1 } }, /"a" is in 1/],
  [
    'a missing file',
    { weight_map: { a: FIRST, b: 'model-3.safetensors' } },
    /^model-3\.safetensors: the file is missing; it has tensor "b"/,
  ],
  ['a missing tensor', { weight_map: { a: SECOND } }, /^model-00002-of-00002\.safetensors: has no tensor "a"/],
  ['a broken file', { weight_map: { c: 'broken.safetensors' } }, /^broken\.safetensors: tensor "c": .*cut off/],
])('refuses %s', async (_, index, reason) => {
  const error = await open(index).then(
    () => undefined,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(CheckpointError);
  expect((error as Error).message).toMatch(reason);
});
