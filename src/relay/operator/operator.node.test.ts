import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonObject } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, PROMPT } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { operatorOf, refusal } from '../testing/operator-calls.ts';
import { type RelayBench, requestOf } from '../testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();

let home: string;
let adapterPath: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-operator-'));
  adapterPath = join(home, 'pirate');
  cpSync(new URL('../../testing/golden/lora/llama-r4-all', import.meta.url), adapterPath, { recursive: true });
});
afterAll(() => rmSync(home, { recursive: true }));

const ask = (on: RelayBench, rest: Parameters<typeof requestOf>[2] = {}) =>
  collect(on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens: 8 }, rest)));

test('LoadLoRA has every node load an adapter, and UnloadLoRA unload it', async () => {
  const on = await start({ maxLoras: 2 });
  const operator = operatorOf(on);
  const node = await on.node({ adapterCode: 0 });
  const adapterId = 'pirate';
  const loaded = await operator.loadLoRA({ adapterId, adapterPath });
  expect(loaded).toMatchObject({ success: true, adapterId, message: '' });
  expect(node.commandsOf('loadAdapter')).toMatchObject([{ loraId: adapterId }]);
  expect((await ask(on, { loraId: adapterId })).error).toBeUndefined();
  const { state } = await operator.getInternalState({ stateKeys: ['loaded_lora_ids'] });
  expect(state).toEqual({ loaded_lora_ids: [adapterId] });
  expect(await operator.unloadLoRA({ adapterId })).toMatchObject({ success: true, message: '' });
  expect(node.commandsOf('unloadAdapter')).toMatchObject([{ loraId: adapterId }]);
  expect((await ask(on, { loraId: adapterId })).error?.details).toContain('lora_id');
});

test('adapters are refused in the words of these messages: adapter_id, adapter_path and rank', async () => {
  const on = await start({ maxLoras: 2 });
  const operator = operatorOf(on);
  const cases = [
    [() => operator.loadLoRA({ adapterId: '', adapterPath }), Code.InvalidArgument, 'adapter_id must be set'],
    [
      () => operator.loadLoRA({ adapterId: 'a', adapterPath: join(home, 'none') }),
      Code.InvalidArgument,
      'adapter_path must',
    ],
    [() => operator.loadLoRA({ adapterId: 'a', adapterPath, rank: -1 }), Code.InvalidArgument, 'rank must be 0'],
    [
      () => operator.loadLoRA({ adapterId: 'a', adapterPath, rank: 63 }),
      Code.InvalidArgument,
      'rank must be 0 or the ',
    ],
    [() => operator.unloadLoRA({ adapterId: '' }), Code.InvalidArgument, 'adapter_id must be set'],
    [() => operator.unloadLoRA({ adapterId: 'a' }), Code.NotFound, 'adapter_id names no adapter'],
  ] as const;
  for (const [call, code, text] of cases) {
    const { code: told, rawMessage } = await refusal(call());
    expect([told, rawMessage]).toEqual([code, expect.stringContaining(text)]);
  }
  const { state } = await operator.getInternalState({ stateKeys: ['loaded_lora_ids'] });
  expect(state).toEqual({ loaded_lora_ids: [] });
});

test('the internal state is what the relay was given and what its nodes told: all of it, or what stateKeys name', async () => {
  const on = await start({ auditShare: 0.25, queueMs: 7_000 });
  const operator = operatorOf(on);
  const node = await on.node({ manual: true, poolTokens: 2_048, maxRunning: 8 });
  node.load = { usedTokens: 64, genThroughput: 12.5, weightBytes: 2n ** 30n, kvBytes: 2n ** 29n };
  await node.report(true);
  const whole = ask(on);
  await node.until(() => node.jobs.length === 1);
  const { state } = await operator.getInternalState({});
  expect(state).toMatchObject({
    ...{ served_model_name: 'stories260K', context_length: 512, schedule_policy: 'lpm', max_total_tokens: 2_048 },
    ...{ audit_share: 0.25, queue_ms: 7_000, max_queued_requests: 1_024, log_level: 'silent' },
    ...{ last_gen_throughput: 12.5, effective_max_running_requests_per_dp: 8, nodes: 1, nodes_serving: 1 },
    ...{ num_running_reqs: 1, num_waiting_reqs: 0, is_paused: false, loaded_lora_ids: [] },
    memory_usage: { weight: 1, kvcache: 0.5, graph: 0, token_capacity: 2_048 },
  });
  const some = await operator.getInternalState({ stateKeys: ['nodes', 'queue_ms'] });
  expect(some.state).toEqual({ nodes: 1, queue_ms: 7_000 });
  const error = await refusal(operator.getInternalState({ stateKeys: ['nodes', 'secrets'] }));
  expect([error.code, error.rawMessage]).toEqual([Code.InvalidArgument, expect.stringContaining('state_keys must')]);
  node.kill();
  await on.end();
  await whole;
});

test('setInternalState changes what a running relay can: how many may wait, what is audited, what is logged', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const on = await start({ logger, startWaitMs: 200 });
  const operator = operatorOf(on);
  const state = { max_queued_requests: 0, audit_share: 1, log_level: 'info' };
  expect(await operator.setInternalState({ state })).toMatchObject({ success: true });
  const told = await operator.getInternalState({ stateKeys: Object.keys(state) });
  expect(told.state).toEqual(state);
  // None may wait.
  expect((await ask(on)).error?.details).toBe('0 requests are waiting already.');
  expect(lines.some((line) => line.includes('request refused'))).toBe(true);
  // All samples are audited, of which one node alone can do none.
  await on.node();
  expect((await ask(on)).error).toBeUndefined();
  const metrics = await (await fetch(`${on.webUrl}/metrics`)).text();
  expect(metrics).toMatch(/^shoal:audited_samples_total\{.*outcome="dropped".*\} 1$/m);
});

test('setInternalState changes all or nothing, and names what it is that it can’t', async () => {
  const operator = operatorOf(await start());
  const cases = [
    [{}, Code.InvalidArgument, 'state must name'],
    [{ max_queued_requests: 3, audit_share: 1.5 }, Code.InvalidArgument, 'state.audit_share'],
    [{ max_queued_requests: 3.5 }, Code.InvalidArgument, 'state.max_queued_requests'],
    [{ max_queued_requests: '3' }, Code.InvalidArgument, 'state.max_queued_requests'],
    [{ max_queued_requests: 3, log_level: 'loud' }, Code.InvalidArgument, 'state.log_level'],
    [{ max_queued_requests: 3, context_length: 64 }, Code.Unimplemented, 'state.context_length'],
    [{ max_queued_requests: 3, pp_max_micro_batch_size: 2 }, Code.Unimplemented, 'state.pp_max_micro_batch_size'],
  ] as const;
  for (const [state, code, text] of cases) {
    const { code: told, rawMessage } = await refusal(operator.setInternalState({ state: state as JsonObject }));
    expect([told, rawMessage]).toEqual([code, expect.stringContaining(text)]);
  }
  const { state } = await operator.getInternalState({ stateKeys: ['max_queued_requests'] });
  expect(state).toEqual({ max_queued_requests: 1_024 });
});
