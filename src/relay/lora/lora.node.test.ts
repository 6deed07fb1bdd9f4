import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  GetLoadsRequestSchema,
  ListLoadedLoRAAdaptersRequestSchema,
  LoadLoRAAdapterRequestSchema,
  SglangScheduler,
  UnloadLoRAAdapterRequestSchema,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, PROMPT } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { type RelayBench, requestOf } from '../testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();
const { method } = SglangScheduler;

let home: string;
let folder: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-lora-'));
  folder = join(home, 'pirate');
  cpSync(new URL('../../testing/golden/lora/llama-r4-all', import.meta.url), folder, { recursive: true });
});
afterAll(() => rmSync(home, { recursive: true }));

const load = (on: RelayBench, fields: object = {}) =>
  on.client.unary(
    method.loadLoRAAdapter,
    create(LoadLoRAAdapterRequestSchema, { loraName: 'pirate', loraPath: folder, ...fields }),
  );
const unload = (on: RelayBench, fields: object = { loraName: 'pirate' }) =>
  on.client.unary(method.unloadLoRAAdapter, create(UnloadLoRAAdapterRequestSchema, fields));
const refusal = (call: Promise<unknown>): Promise<ServiceError> =>
  call.then(
    () => Promise.reject(new Error('the call went well')),
    (error: ServiceError) => error,
  );
const generate = (on: RelayBench, loraId: string) =>
  collect(on.client.stream(method.generate, requestOf(PROMPT, { maxNewTokens: 2 }, { loraId })));

test('an adapter is loaded by every node, from files of the web port, and named by requests', async () => {
  const on = await start({ maxLoras: 2 });
  const nodes = [await on.node({ adapterCode: 0 }), await on.node({ adapterCode: 0 })];
  expect(await load(on, { loraId: 'id-1', pinned: true })).toMatchObject({
    ...{ success: true, message: '', loadedLoraIds: ['id-1'] },
  });
  for (const node of nodes) {
    const [command] = node.commandsOf('loadAdapter');
    expect(command).toMatchObject({ loraId: 'id-1' });
    for (const { name, size } of command!.files) {
      const response = await fetch(`${on.webUrl}/model/adapters/${command!.digest}/${name}`);
      expect((await response.arrayBuffer()).byteLength).toBe(Number(size));
    }
  }
  const about = (await (await fetch(`${on.webUrl}/model/about.json`)).json()) as object;
  expect(about).toMatchObject({ adapters: { most: 2, maxRank: 64 } });
  // By its id or its name.
  for (const named of ['id-1', 'pirate']) expect((await generate(on, named)).error).toBeUndefined();
  const jobs = nodes.flatMap((node) => node.jobs);
  expect(jobs.map(({ loraId }) => loraId)).toEqual(['id-1', 'id-1']);
  const list = await on.client.unary(method.listLoadedLoRAAdapters, create(ListLoadedLoRAAdaptersRequestSchema));
  expect(list.loadedAdapters).toMatchObject([{ loraId: 'id-1', loraName: 'pirate', loraPath: folder, pinned: true }]);
  // A path is looked up among them only.
  for (const path of ['x/y', `${'0'.repeat(64)}/adapter_config.json`, '../config.json']) {
    expect((await fetch(`${on.webUrl}/model/adapters/${path}`)).status).toBe(404);
  }
});

test('a node that comes loads it before it gets requests that name it', async () => {
  const on = await start({ maxLoras: 1 });
  expect((await load(on)).message).toBe('No node is serving: those that come load it.');
  const without = await on.node();
  await without.until(() => without.commandsOf('loadAdapter').length === 1);
  const answer = generate(on, 'pirate');
  const holder = await on.node({ adapterCode: 0 });
  expect((await answer).error).toBeUndefined();
  expect([without.jobs.length, holder.jobs.length]).toEqual([0, 1]);
});

test('is unloaded everywhere, and refused by name from then on', async () => {
  const on = await start({ maxLoras: 1 });
  const node = await on.node({ adapterCode: 0 });
  await load(on);
  expect((await refusal(load(on, { loraName: 'other' }))).code).toBe(status.RESOURCE_EXHAUSTED);
  expect(await unload(on)).toMatchObject({ success: true, loadedLoraIds: [] });
  expect(node.commandsOf('unloadAdapter')).toMatchObject([{ loraId: 'pirate' }]);
  const { error } = await generate(on, 'pirate');
  expect([error?.code, error?.details]).toEqual([
    status.INVALID_ARGUMENT,
    'lora_id must name an adapter that is loaded.',
  ]);
  expect((await refusal(unload(on))).code).toBe(status.NOT_FOUND);
  expect((await load(on)).success).toBe(true);
});

test('loads tell the slots of nodes that have some', async () => {
  const on = await start({ maxLoras: 4 });
  const node = await on.node({ adapterCode: 0 });
  node.load = { loraSlots: 4, loraUsed: 1 };
  await node.report(true);
  const { loads } = await on.client.unary(method.getLoads, create(GetLoadsRequestSchema, { include: ['lora'] }));
  expect(loads[0]?.lora).toMatchObject({ slotsUsed: 1, slotsTotal: 4, utilization: 0.25 });
  node.load = { loraSlots: 1, loraUsed: 2 };
  await node.report(true);
  expect(node.reportError?.rawMessage).toContain('more adapters than it has slots for');
});

test('what no node can load is refused as the nodes say, and forgotten', async () => {
  const on = await start({ maxLoras: 2 });
  const full = await on.node({ adapterCode: status.RESOURCE_EXHAUSTED });
  const error = await refusal(load(on));
  expect([error.code, error.details]).toEqual([status.RESOURCE_EXHAUSTED, 'no room']);
  // A node that was out of reach may have loaded it since: all are told.
  await full.until(() => full.commandsOf('unloadAdapter').length === 1);
  await on.node({ adapterCode: 0 });
  expect((await load(on)).message).toBe('1 of 2 nodes could not load it: no room');
});

test('a rank over the bound is refused here, whatever the config calls it, and no node hears of it', async () => {
  const on = await start({ maxLoras: 1, maxLoraRank: 3 });
  const node = await on.node({ adapterCode: 0 });
  const patterned = join(home, 'patterned');
  cpSync(folder, patterned, { recursive: true });
  const config = JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'));
  const text = JSON.stringify({ ...config, r: 2, rank_pattern: { q_proj: 4 } });
  writeFileSync(join(patterned, 'adapter_config.json'), text);
  for (const loraPath of [folder, patterned]) {
    const error = await refusal(load(on, { loraPath }));
    expect([error.code, error.details]).toEqual([
      status.INVALID_ARGUMENT,
      'lora_path must hold an adapter of rank 3 at most (--max-lora-rank), got 4.',
    ]);
  }
  expect(node.commandsOf('loadAdapter')).toEqual([]);
  await on.end();
  const roomy = await start({ maxLoras: 1, maxLoraRank: 4 });
  await roomy.node({ adapterCode: 0 });
  expect((await load(roomy)).success).toBe(true);
});

test('those that are being loaded count once, and have their names', async () => {
  const on = await start({ maxLoras: 2 });
  const slow = await on.node();
  // They are never done: their relay ends first.
  const begin = (fields: object) => void load(on, fields).catch(() => {});
  begin({ loraId: 'one' });
  await slow.until(() => slow.commandsOf('loadAdapter').length === 1);
  expect((await refusal(load(on, { loraId: 'two' }))).code).toBe(status.ALREADY_EXISTS);
  begin({ loraName: 'second' });
  await slow.until(() => slow.commandsOf('loadAdapter').length === 2);
  expect((await refusal(load(on, { loraName: 'third' }))).code).toBe(status.RESOURCE_EXHAUSTED);
});

test('a request whose adapter no node could load is told so', async () => {
  const on = await start({ maxLoras: 1, startWaitMs: 200 });
  await load(on);
  const node = await on.node({ adapterCode: status.INVALID_ARGUMENT });
  await node.until(() => node.commandsOf('loadAdapter').length === 1);
  const { error } = await generate(on, 'pirate');
  expect([error?.code, error?.details]).toEqual([
    status.UNAVAILABLE,
    'No node could load the adapter that lora_id names.',
  ]);
});

test('what is too large is refused by its size, before it is read', async () => {
  const on = await start({ maxLoras: 1 });
  const large = join(home, 'large');
  cpSync(folder, large, { recursive: true });
  // Holes: on the disk these take no room.
  truncateSync(join(large, 'adapter_model.safetensors'), 2 ** 30);
  expect((await refusal(load(on, { loraPath: large }))).details).toContain('lora_path must hold an adapter of at most');
  truncateSync(join(large, 'adapter_config.json'), 2 ** 20 + 1);
  expect((await refusal(load(on, { loraPath: large }))).details).toContain('adapter_config.json of at most');
});

test('what is no adapter is refused by name, and all of it without --max-loras', async () => {
  const on = await start({ maxLoras: 2 });
  writeFileSync(join(home, 'file'), '');
  for (const [fields, field] of [
    [{ loraName: '' }, 'lora_name'],
    [{ loraPath: '' }, 'lora_path'],
    [{ loraPath: join(home, 'nowhere') }, 'lora_path'],
    [{ loraPath: join(home, 'file') }, 'lora_path'],
  ] as const) {
    const error = await refusal(load(on, fields));
    expect([error.code, error.details]).toEqual([status.INVALID_ARGUMENT, expect.stringContaining(field)]);
  }
  await load(on);
  expect((await refusal(load(on))).code).toBe(status.ALREADY_EXISTS);
  expect((await refusal(unload(on, {}))).code).toBe(status.INVALID_ARGUMENT);
  await on.end();
  expect((await refusal(load(await start()))).code).toBe(status.UNIMPLEMENTED);
});
