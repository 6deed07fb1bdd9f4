// LoRA adapters of a page in a real browser: loaded at the start and by rpc, named by requests, unloaded, and kept beside other weights.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeSafetensors } from '../src/checkpoint/testing/write-safetensors.ts';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import { Operator } from '../src/contract/gen/operator_pb.ts';
import { Random } from '../src/gpu/testing/random.ts';
import { writeOtherWeights } from '../src/relay/testing/other-weights.ts';
import { MODEL_DIR } from '../src/relay/testing/relay-bench.ts';
import { TestBrowser } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const LONG = process.env.SHOAL_LONG === '1';
const RANK = 4;
const HIDDEN = 64;
const TOKENS = LONG ? 40 : 16;
const LAYERS = 5;

/** An adapter of the bundled model's q_proj: B is of zeros, which changes nothing, or not. */
function writeAdapter(folder: string, zero: boolean): string {
  mkdirSync(folder);
  const config = { peft_type: 'LORA', r: RANK, lora_alpha: 8, target_modules: ['q_proj'], bias: 'none' };
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify(config));
  const random = new Random(5);
  const header: Record<string, unknown> = {};
  const values: number[] = [];
  const add = (name: string, shape: number[], floats: Float32Array) => {
    const from = 4 * values.length;
    values.push(...floats);
    header[name] = { dtype: 'F32', shape, data_offsets: [from, 4 * values.length] };
  };
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `base_model.model.model.layers.${layer}.self_attn.q_proj`;
    add(`${name}.lora_A.weight`, [RANK, HIDDEN], random.normals(RANK * HIDDEN, 1));
    const b = zero ? new Float32Array(HIDDEN * RANK) : random.normals(HIDDEN * RANK, 1);
    add(`${name}.lora_B.weight`, [HIDDEN, RANK], b);
  }
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  writeFileSync(join(folder, 'adapter_model.safetensors'), writeSafetensors(header, bytes));
  return folder;
}

let home: string;
let relay: TestRelay;
let browser: TestBrowser;
let client: SchedulerClient;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-e2e-lora-'));
  relay = await startRelay(['--lora', `zero=${writeAdapter(join(home, 'zero'), true)}`, '--max-loras', '2']);
  browser = await TestBrowser.launch();
  await browser.serve(relay.webUrl);
  client = schedulerClient(relay.grpc);
});
afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
  rmSync(home, { recursive: true, force: true });
});

async function update(value: string): Promise<void> {
  const operator = createClient(Operator, createGrpcWebTransport({ baseUrl: relay.webUrl, httpVersion: '1.1' }));
  const { message } = await operator.updateWeights({ source: { case: 'diskPath', value } });
  expect(message).toBe('Nodes that serve them: 1 of 1.');
}

async function output(loraId: string): Promise<number[]> {
  return idsOf(await collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens: TOKENS }, { loraId })));
}

test('adapters change what requests that name them get, and nothing else', async () => {
  const plain = OUTPUT_IDS.slice(0, TOKENS);
  expect(await output('zero')).toEqual(plain);
  const loraPath = writeAdapter(join(home, 'wild'), false);
  const loaded = await client.loadLoRAAdapter({ loraName: 'wild', loraPath });
  expect(loaded).toMatchObject({ success: true, message: '', loadedLoraIds: ['zero', 'wild'] });
  const wild = await output('wild');
  expect(wild).not.toEqual(plain);
  const together = await Promise.all(['wild', '', 'zero', 'wild', ''].map(output));
  expect(together).toEqual([wild, plain, plain, wild, plain]);
  await until('the node has told of its adapters', 10_000, async () => {
    const { loads } = await client.getLoads({ include: ['lora'] });
    return loads[0]?.lora?.slotsUsed === 2 && loads[0].lora.slotsTotal === 2;
  });
  expect((await client.unloadLoRAAdapter({ loraName: 'wild' })).loadedLoraIds).toEqual(['zero']);
  await expect(output('wild')).rejects.toMatchObject({ code: Code.InvalidArgument });
  // Other weights take the place of these, with the adapters: one that changes nothing changes nothing of them either.
  const weights = writeOtherWeights(join(home, 'other'), 1);
  await update(weights);
  const [others, withZero] = [await output(''), await output('zero')];
  expect([withZero, others.length]).toEqual([others, TOKENS]);
  expect(others).not.toEqual(plain);
  await update(MODEL_DIR);
  expect(await output('')).toEqual(plain);
  if (!LONG) return;
  // A page that comes later has what there is.
  await browser.serve(relay.webUrl);
  expect(await output('zero')).toEqual(plain);
  expect(await output('')).toEqual(plain);
});
