import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  GetModelInfoRequestSchema,
  GetServerInfoRequestSchema,
  HealthCheckRequestSchema,
  SglangScheduler,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import { type KvEventBatch, SubscribeKvEventsRequestSchema } from '../../contract/gen/smg_common_pb.ts';
import { writeEncoderFolder } from '../../testing/encoder-folder.node.ts';
import { openModel } from '../model/open-model.ts';
import { benchPerTest, idsOf, PROMPT, running } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { operatorOf, refusal, updateWeights as update } from '../testing/operator-calls.ts';
import { writeOtherWeights } from '../testing/other-weights.ts';
import { MODEL_DIR, type RelayBench, requestOf } from '../testing/relay-bench.ts';
import { outputOf } from '../testing/scripted-engine.ts';
import { embeddedEvent, vectorOf } from '../testing/scripted-vectors.ts';
import { askVector, EMBEDDING_NODE, vectorRefusal } from '../testing/vector-calls.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate, getModelInfo, getServerInfo, healthCheck, subscribeKvEvents } = SglangScheduler.method;
const start = benchPerTest();
const adapter = new URL('../../testing/golden/lora/llama-r4-all', import.meta.url).pathname;

let home: string;
let other: string;
/** As the relay serves it: under the name that it began with. */
let otherDigest: string;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-weights-'));
  other = writeOtherWeights(join(home, 'other'), 1);
  otherDigest = (await openModel(other, { name: 'stories260K' })).digest;
});
afterAll(() => rmSync(home, { recursive: true }));

const ask = (on: RelayBench, maxNewTokens = 8) =>
  collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens })), 20_000);
const versionOf = async (on: RelayBench) =>
  (await on.client.unary(getModelInfo, create(GetModelInfoRequestSchema))).weightVersion;
const stateOf = async (on: RelayBench) => (await operatorOf(on).getInternalState({})).state!;
const phaseOf = async (on: RelayBench) => (await stateOf(on)).request_phase;
const healthOf = (on: RelayBench) => on.client.unary(healthCheck, create(HealthCheckRequestSchema));
const serverOf = (on: RelayBench) => on.client.unary(getServerInfo, create(GetServerInfoRequestSchema));

test('sessions end with the old weights, and nodes come again with the new ones, which alone are served', async () => {
  const on = await start();
  const before = on.relay.model;
  const node = await on.node({ nodeId: 'node-of-the-test' });
  expect(idsOf((await ask(on)).messages)).toEqual(outputOf(PROMPT, 8));
  const updated = update(on, other);
  await node.until(() => node.streamError !== undefined);
  expect(node.streamError).toMatchObject({ code: Code.Aborted, rawMessage: expect.stringContaining('updated') });

  const waiting = ask(on);
  expect(await healthOf(on)).toMatchObject({ healthy: true, message: '0 serving, others load other weights' });
  expect((await fetch(`${on.webUrl}/healthz`)).status).toBe(200);
  expect((await serverOf(on)).schedulerInfo).toMatchObject({ status: 'loading weights', nodes: 0 });
  const old = await refusal(on.node({ modelDigest: before.digest, nodeId: 'node-of-the-test' }));
  expect(old.code).toBe(Code.FailedPrecondition);

  expect(on.relay.model).toMatchObject({ name: before.name, folder: other, digest: otherDigest });
  const again = await on.node({ nodeId: 'node-of-the-test' });
  expect(await updated).toMatchObject({ success: true, message: 'Nodes that serve them: 1 of 1.' });
  expect(idsOf((await waiting).messages)).toEqual(outputOf(PROMPT, 8));
  expect(again.jobs).toHaveLength(1);
  expect(await healthOf(on)).toMatchObject({ healthy: true, message: '1 serving' });
  expect(await versionOf(on)).toBe(otherDigest.slice(0, 12));

  const manifest = await (await fetch(`${on.webUrl}/model/manifest.json`)).text();
  expect(manifest).toBe(on.relay.model.manifestJson);
  const file = await fetch(`${on.webUrl}/model/files/model.safetensors`);
  expect(Buffer.from(await file.arrayBuffer()).equals(readFileSync(join(other, 'model.safetensors')))).toBe(true);
  expect((await fetch(`${on.webUrl}/tokenizer/manifest.json`)).status).toBe(200);
});

test('what runs goes on to its end with the old weights, and what comes meanwhile waits for the new ones', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const whole = ask(on);
  await node.until(() => node.jobs.length === 1);
  const updated = update(on, other);
  await expect.poll(() => phaseOf(on)).toBe('held');
  const later = ask(on);
  expect(await refusal(update(on, other))).toMatchObject({ code: Code.Aborted });
  expect([node.jobs.length, await versionOf(on)]).toEqual([1, on.relay.model.digest.slice(0, 12)]);
  expect(on.relay.model.digest).not.toBe(otherDigest);

  const { jobId } = node.jobs[0]!;
  const tokenIds = outputOf(PROMPT, 8);
  await node.tell(
    { jobId, event: { case: 'tokens', value: { tokenIds } } },
    { jobId, event: { case: 'finished', value: { reason: 2, completionTokens: 8 } } },
  );
  expect(idsOf((await whole).messages)).toEqual(tokenIds);
  await node.until(() => node.streamError !== undefined);
  expect(node.jobs).toHaveLength(1);
  await on.node();
  expect(idsOf((await later).messages)).toEqual(tokenIds);
  expect((await updated).success).toBe(true);
});

test('what runs past its time ends with "abort" and its tokens; what has none yet is made of the new weights', async () => {
  const on = await start({ updateDrainMs: 300 });
  const node = await on.node({ manual: true });
  const stream = running(on, 8);
  await node.until(() => node.jobs.length === 1);
  await node.tell({ jobId: node.jobs[0]!.jobId, event: { case: 'tokens', value: { tokenIds: [7, 8] } } });
  const begun = await stream;
  const unbegun = ask(on);
  await node.until(() => node.jobs.length === 2);
  const updated = update(on, other);
  const { messages, error } = await begun.whole;
  expect([error, idsOf(messages)]).toEqual([undefined, [7, 8]]);
  expect(messages.at(-1)?.response).toMatchObject({ case: 'complete', value: { finishReason: 'abort' } });
  await node.until(() => node.streamError !== undefined);
  const fresh = await on.node();
  expect(idsOf((await unbegun).messages)).toEqual(outputOf(PROMPT, 8));
  expect(fresh.jobs.map(({ samples }) => samples.map(({ emittedIds }) => emittedIds))).toEqual([[[]]]);
  await updated;
});

test('one who leaves before the switch has changed nothing', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const { digest } = on.relay.model;
  const whole = ask(on);
  await node.until(() => node.jobs.length === 1);
  const gone = new AbortController();
  const updated = refusal(update(on, other, gone.signal));
  await expect.poll(() => phaseOf(on)).toBe('held');
  const later = ask(on);
  await expect.poll(async () => (await stateOf(on)).num_waiting_reqs).toBe(1);
  expect(node.jobs).toHaveLength(1);
  gone.abort();
  expect((await updated).code).toBe(Code.Canceled);
  await node.until(() => node.jobs.length === 2);
  expect([on.relay.model.digest, node.streamError]).toEqual([digest, undefined]);
  node.kill();
  await on.end();
  await Promise.all([whole, later]);
});

test('the answer says which nodes have not loaded them in time, and requests wait no longer than otherwise', async () => {
  const on = await start({ updateLoadMs: 200, startWaitMs: 0 });
  await on.node();
  const updated = update(on, other);
  await expect.poll(() => on.relay.model.digest).toBe(otherDigest);
  const { error } = await ask(on);
  expect([error?.code, error?.details]).toEqual([Code.Unavailable, 'No node is serving.']);
  expect((await updated).message).toBe('Nodes that serve them after 0.2 s: 0 of 1.');
  expect((await healthOf(on)).healthy).toBe(false);
});

test('without a node there is nothing to wait for', async () => {
  const on = await start();
  expect(await update(on, other)).toMatchObject({
    success: true,
    message: 'No node was serving: those that come load them.',
  });
  expect(await update(on, other)).toMatchObject({ success: true, message: 'These weights are served already.' });
  expect((await healthOf(on)).healthy).toBe(false);
});

test('a .safetensors file is the weights alone: all else stays as it is', async () => {
  const on = await start();
  const weights = join(home, 'step-2.safetensors');
  copyFileSync(join(writeOtherWeights(join(home, 'second'), 2), 'model.safetensors'), weights);
  const { manifest, folder } = on.relay.model;
  expect((await update(on, weights)).success).toBe(true);
  const { model } = on.relay;
  expect(model.folder).toBe(folder);
  expect(model.paths['model.safetensors']).toBe(weights);
  const hashes = new Map(manifest.files.map(({ name, sha256 }) => [name, sha256]));
  const changed = model.manifest.files.filter(({ name, sha256 }) => sha256 !== hashes.get(name));
  expect(changed.map(({ name }) => name)).toEqual(['model.safetensors']);
  expect(model.manifest.files).toHaveLength(manifest.files.length);
});

test('gateways are told that nothing is cached any more, and adapters are loaded anew', async () => {
  const on = await start({ loras: [{ name: 'pirate', path: adapter }], maxLoras: 1 });
  const node = await on.node({ adapterCode: 0 });
  const ids = Array.from({ length: 16 }, () => 9);
  await node.tell({ event: { case: 'cacheStored', value: { blocks: [0], tokenIds: ids } } });
  const events: string[] = [];
  const stream = on.client.stream(subscribeKvEvents, create(SubscribeKvEventsRequestSchema));
  const closed = collect(stream, 25_000);
  stream.on('data', (batch: KvEventBatch) => {
    for (const { data } of batch.events) events.push(String(data.case));
  });
  await expect.poll(() => events).toEqual(['cleared', 'stored']);
  const updated = update(on, other);
  await expect.poll(() => events.slice(2)).toContain('cleared');
  const again = await on.node({ adapterCode: 0 });
  await updated;
  await again.until(() => again.commandsOf('loadAdapter').length === 1);
  expect(again.commandsOf('loadAdapter')).toMatchObject([{ loraId: 'pirate' }]);
  const named = on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 2 }, { loraId: 'pirate' }));
  expect((await collect(named)).error).toBeUndefined();
  stream.cancel();
  await closed;
});

test('what is no such model, or another, is refused in words, and what is served goes on', async () => {
  const on = await start({ updateLoadMs: 100 });
  const node = await on.node();
  const { digest } = on.relay.model;
  const folder = (name: string, file: string, edit: (text: string) => string) => {
    const path = writeOtherWeights(join(home, name), 3);
    writeFileSync(join(path, file), edit(readFileSync(join(path, file), 'utf8')));
    return path;
  };
  const cut = writeOtherWeights(join(home, 'cut'), 3, ({ 'model.norm.weight': _, ...rest }) => rest);
  const flat = writeOtherWeights(join(home, 'flat'), 3, (header) => ({
    ...header,
    'model.layers.0.mlp.down_proj.weight': { ...header['model.layers.0.mlp.down_proj.weight'], shape: [172, 64] },
  }));
  const gguf = new URL('../../testing/golden/gguf/stories260K-q8_0.gguf', import.meta.url).pathname;
  const cases = [
    ['', Code.InvalidArgument, 'disk_path must be set'],
    [join(home, 'none'), Code.InvalidArgument, 'disk_path holds what is not served: there is no model at '],
    [join(home, 'none.safetensors'), Code.InvalidArgument, "disk_path can't be read: "],
    [join(MODEL_DIR, 'LICENSE'), Code.InvalidArgument, 'neither a folder nor a .gguf file'],
    [join(MODEL_DIR, 'config.json', 'x'), Code.InvalidArgument, 'there is no model at '],
    [gguf, Code.FailedPrecondition, 'holds a .gguf file, and what is served safetensors: weights alone can change.'],
    [
      folder('rope', 'config.json', (text) => text.replace('10000.0', '50000.0')),
      Code.FailedPrecondition,
      'holds rope_theta 50000 in its config, and what is served 10000',
    ],
    [
      folder('eos', 'generation_config.json', (text) => text.replace('[1, 2]', '[2]')),
      Code.FailedPrecondition,
      'holds eos_token_id [2], and what is served [1,2]',
    ],
    [
      folder('tokens', 'tokenizer.json', (text) => `${text} `),
      Code.FailedPrecondition,
      'holds another tokenizer.json than the tokenizer that is served',
    ],
    [cut, Code.FailedPrecondition, 'holds no model.norm.weight'],
    [flat, Code.FailedPrecondition, 'down_proj.weight of shape [172,64], and what is served [64,172]'],
  ] as const;
  for (const [path, code, text] of cases) {
    const { code: told, rawMessage } = await refusal(update(on, path));
    expect([told, rawMessage]).toEqual([code, expect.stringContaining(text)]);
  }
  expect([on.relay.model.digest, node.streamError]).toEqual([digest, undefined]);
  expect((await ask(on)).error).toBeUndefined();
});

test('other sources, and a weight by its name, are refused by name', async () => {
  const operator = operatorOf(await start());
  const diskPath = { case: 'diskPath', value: other } as const;
  const cases = [
    [{}, Code.InvalidArgument, 'disk_path must be set'],
    [{ source: { case: 'tensorData', value: new Uint8Array(4) } }, Code.Unimplemented, 'tensor_data is not served'],
    [{ source: { case: 'remoteUrl', value: 'https://x.example/m' } }, Code.Unimplemented, 'remote_url is not served'],
    [
      { source: diskPath, weightName: 'lm_head.weight' },
      Code.Unimplemented,
      'weight_name must be unset, or stories260K',
    ],
  ] as const;
  for (const [request, code, text] of cases) {
    const { code: told, rawMessage } = await refusal(operator.updateWeights(request));
    expect([told, rawMessage]).toEqual([code, expect.stringContaining(text)]);
  }
  expect((await operator.updateWeights({ source: diskPath, weightName: 'stories260K' })).success).toBe(true);
});

test('vectors of one request are of one model: where some are made in time, it is to be asked again', async () => {
  const folder = writeEncoderFolder(join(home, 'embedder'), { name: 'bert', pools: true });
  const model = await openModel(folder, { cache: join(home, 'cache') });
  const on = await start({ model, updateDrainMs: 200 });
  const node = await on.node({ ...EMBEDDING_NODE, manual: true });
  const begun = vectorRefusal(on, { tokenized: undefined, texts: ['the cat', 'a dog'] });
  await node.until(() => node.embeds.length === 1);
  const { jobId, inputs } = node.embeds[0]!;
  await node.tell(embeddedEvent(jobId, 0, vectorOf(inputs[0]!.inputIds, [], 48)));
  const unbegun = askVector(on);
  await node.until(() => node.embeds.length === 2);
  const weights = join(home, 'bert.safetensors');
  const bytes = readFileSync(join(folder, 'model.safetensors'));
  bytes[bytes.length - 2]! ^= 1;
  writeFileSync(weights, bytes);
  const updated = update(on, weights);
  expect(await begun).toMatchObject({ code: Code.Unavailable, details: expect.stringContaining('ask again') });
  await node.until(() => node.streamError !== undefined);
  await on.node(EMBEDDING_NODE);
  expect((await unbegun).response.case).toBe('complete');
  expect((await updated).success).toBe(true);
});
