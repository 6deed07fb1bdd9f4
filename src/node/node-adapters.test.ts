import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { sha256Hex } from '../checkpoint/manifest.ts';
import { FAILURE_CODES } from '../contract/failure-codes.ts';
import { LoadAdapterSchema, UnloadAdapterSchema } from '../contract/gen/node_relay_pb.ts';
import { LoraError, type LoraFiles } from '../engine/lora-adapters.ts';
import type { LoadedLora } from '../engine/lora-counts.ts';
import { NodeAdapters, takeAdapterCommand } from './node-adapters.ts';

const CONFIG = new TextEncoder().encode('{"r":4}');
const WEIGHTS = Uint8Array.of(1, 2, 3, 4);

async function open({ weights = WEIGHTS }: { readonly weights?: Uint8Array } = {}) {
  const acts: string[] = [];
  const told: { requestId?: bigint; code?: number; message?: string }[] = [];
  const loaded = new Map<string, LoraFiles>();
  const used = new Set<string>();
  const one = (id: string): LoadedLora => ({ id, version: 1, rank: 4, requests: 0, sequences: 0 });
  const lora = {
    async load(files: LoraFiles) {
      acts.push(`load ${files.id} ${files.config} ${[...(await files.weights.read(0, files.weights.size))]}`);
      if (loaded.has(files.id)) throw new LoraError('invalid_argument', 'loaded already');
      loaded.set(files.id, files);
      return one(files.id);
    },
    async unload(id: string) {
      acts.push(`unload ${id}`);
      if (used.has(id)) throw new LoraError('unavailable', 'is still used');
      if (!loaded.delete(id)) throw new LoraError('invalid_argument', 'is not loaded');
      return one(id);
    },
    list: () => [...loaded.keys()].map(one),
  };
  const fetched: string[] = [];
  const fetchFile = async (path: string) => {
    fetched.push(path);
    return path.endsWith('.json') ? CONFIG : weights;
  };
  const adapters = new NodeAdapters(lora, fetchFile, (events) => {
    for (const { event } of events) if (event?.case === 'adapterDone') told.push(event.value as object);
  });
  const files = [
    { name: 'adapter_config.json', size: BigInt(CONFIG.byteLength), sha256: await sha256Hex(CONFIG) },
    { name: 'adapter_model.safetensors', size: BigInt(WEIGHTS.byteLength), sha256: await sha256Hex(WEIGHTS) },
  ];
  const load = (requestId: bigint, loraId = 'a', which = files) =>
    adapters.load(create(LoadAdapterSchema, { requestId, loraId, digest: 'd', files: which }));
  const unload = (requestId: bigint, loraId = 'a') =>
    adapters.unload(create(UnloadAdapterSchema, { requestId, loraId }));
  const settle = () => adapters.settled;
  return { adapters, acts, told, fetched, files, load, unload, used, settle };
}

test('adapters are fetched, checked, loaded and unloaded in the order they are asked for', async () => {
  const { acts, told, fetched, load, unload, settle } = await open();
  load(1n);
  unload(2n);
  load(3n);
  load(4n);
  await settle();
  expect(fetched.slice(0, 2)).toEqual(['d/adapter_config.json', 'd/adapter_model.safetensors']);
  expect(acts).toEqual(['load a {"r":4} 1,2,3,4', 'unload a', 'load a {"r":4} 1,2,3,4', 'load a {"r":4} 1,2,3,4']);
  expect(told).toEqual([
    { requestId: 1n },
    { requestId: 2n },
    { requestId: 3n },
    { requestId: 4n, code: FAILURE_CODES.invalid_argument, message: 'loaded already' },
  ]);
});

test('one that was still used when it was to go goes before another is loaded, or with it', async () => {
  const { acts, told, load, unload, used, settle } = await open();
  load(1n);
  await settle();
  used.add('a');
  unload(2n);
  load(3n, 'b');
  load(4n);
  await settle();
  const unavailable = { code: FAILURE_CODES.unavailable, message: 'is still used' };
  expect(told).toEqual([
    { requestId: 1n },
    { requestId: 2n, ...unavailable },
    { requestId: 3n },
    { requestId: 4n, ...unavailable },
  ]);
  used.clear();
  acts.length = 0;
  load(5n);
  await settle();
  expect(acts).toEqual(['unload a', 'load a {"r":4} 1,2,3,4']);
  expect(told.at(-1)).toEqual({ requestId: 5n });
});

test('files that are not what the relay tells are not loaded', async () => {
  const { acts, told, files, load, settle } = await open({ weights: Uint8Array.of(1, 2, 3, 5) });
  load(1n);
  load(2n, 'a', files.slice(0, 1));
  await settle();
  expect(acts).toEqual([]);
  expect(told.map(({ code }) => code)).toEqual([FAILURE_CODES.unavailable, FAILURE_CODES.invalid_argument]);
});

test('a new session begins with none, and hears nothing of what another asked for', async () => {
  const { adapters, acts, told, load, settle } = await open();
  load(1n);
  await settle();
  load(2n, 'b');
  adapters.reset();
  load(1n);
  await settle();
  expect(acts).toEqual(['load a {"r":4} 1,2,3,4', 'unload a', 'load a {"r":4} 1,2,3,4']);
  expect(told).toEqual([{ requestId: 1n }, { requestId: 1n }]);
});

test('a node that takes none says so', () => {
  const [event] = takeAdapterCommand(undefined, create(UnloadAdapterSchema, { requestId: 9n, loraId: 'a' }));
  expect(event?.event?.value).toMatchObject({ requestId: 9n, code: FAILURE_CODES.unimplemented });
});
