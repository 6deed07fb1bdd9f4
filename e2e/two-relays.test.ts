// The real gateway of generation 2 in front of two relays: its policies go by what both tell it. It has no tokenizer on
// its own disk.
import { afterEach, describe, expect, test } from 'vitest';
import { openModel } from '../src/relay/model/open-model.ts';
import { MODEL_DIR, RelayBench } from '../src/relay/testing/relay-bench.ts';
import type { Script, ScriptedNode } from '../src/relay/testing/scripted-node.ts';
import { skipGateway, type TestGateway, testGateway } from './harness/gateway.ts';
import { post, postJson } from './harness/openai.ts';
import { until } from './harness/wait.ts';

interface Side {
  readonly bench: RelayBench;
  readonly node: ScriptedNode;
}

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Two relays with a node each, and a gateway in front of both. */
async function open(policy: string, script: Partial<Script>, ...args: string[]) {
  const model = { ...(await openModel(MODEL_DIR)), folder: '/not/on/this/disk/stories260K' };
  const sides: Side[] = [];
  for (let at = 0; at < 2; at++) {
    const bench = await RelayBench.start({ model, queueMs: 60_000 });
    closers.push(() => bench.end());
    sides.push({ bench, node: await bench.node(script) });
  }
  const [left, right] = sides as [Side, Side];
  const urls = sides.map(({ bench }) => `grpc://127.0.0.1:${bench.relay.grpcPort}`);
  const grpc = { host: '127.0.0.1', port: left.bench.relay.grpcPort };
  const gateway = await testGateway(2, grpc, ['--worker-urls', ...urls, '--policy', policy, ...args]);
  closers.push(() => gateway.close());
  await until('the gateway knows both relays', 15_000, async () => {
    const { workers } = (await (await fetch(`${gateway.url}/workers`)).json()) as {
      workers: { is_healthy: boolean }[];
    };
    return workers.filter((worker) => worker.is_healthy).length === 2;
  });
  // It fetches their tokenizer after that.
  await until('the gateway has the tokenizer', 15_000, async () => {
    const response = await post(`${gateway.url}/v1/completions`, completion('Hello'));
    await response.text();
    return response.ok;
  });
  return { left, right, gateway };
}

const completion = (prompt: string) => ({ model: 'stories260K', prompt, max_tokens: 2, temperature: 0 });

/** Whose node gets it. */
async function taker(gateway: TestGateway, sides: readonly Side[], prompt: string): Promise<Side> {
  const before = sides.map(({ node }) => node.jobs.length);
  const { choices } = await postJson(`${gateway.url}/v1/completions`, completion(prompt));
  expect(choices).toHaveLength(1);
  return sides.find(({ node }, at) => node.jobs.length > (before[at] as number)) as Side;
}

describe.skipIf(skipGateway !== undefined)('generation 2 with two relays', () => {
  test('cache_aware: a prompt goes to the relay whose nodes cache it, until they do no more', async () => {
    const { left, right, gateway } = await open('cache_aware', {});
    const prompt =
      'Once upon a time, there was a little girl named Lily. She loved to play outside in the park. '.repeat(3);
    const first = await taker(gateway, [left, right], prompt);
    const other = first === left ? right : left;
    const { inputIds } = first.node.jobs.at(-1) ?? { inputIds: [] };
    const blocks = Array.from({ length: Math.floor(inputIds.length / 16) }, (_, at) => at);
    expect(blocks.length).toBeGreaterThan(1);
    const value = { blocks, tokenIds: inputIds.slice(0, blocks.length * 16) };
    await other.node.tell({ event: { case: 'cacheStored', value } });
    await until('the gateway goes by it', 10_000, async () => (await taker(gateway, [left, right], prompt)) === other);
    for (let at = 0; at < 5; at++) expect(await taker(gateway, [left, right], prompt)).toBe(other);
    // What the other has told is gone with its node.
    await first.node.tell({ event: { case: 'cacheStored', value } });
    await other.node.tell({ event: { case: 'cacheCleared', value: {} } });
    await until(
      'the gateway goes by that',
      10_000,
      async () => (await taker(gateway, [left, right], prompt)) === first,
    );
    for (let at = 0; at < 5; at++) expect(await taker(gateway, [left, right], prompt)).toBe(first);
  });

  test('least_load: requests go to the relay where fewer tokens wait', async () => {
    const { left, right, gateway } = await open('least_load', {}, '--load-monitor-interval', '1');
    const sides = [left, right];
    for (const [busy, free] of [
      [left, right],
      [right, left],
    ] as const) {
      free.node.load = { waiting: 0 };
      busy.node.load = { waiting: 8, waitingUncachedTokens: 40_000 };
      for (const { node } of sides) await node.report(true);
      await until('the gateway has asked for the loads', 15_000, async () => {
        const taken: Side[] = [];
        for (let at = 0; at < 4; at++) taken.push(await taker(gateway, sides, 'Once upon a time'));
        return taken.every((side) => side === free);
      });
    }
  });
});
