import { expect, test } from 'vitest';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { answer } from './testing/answers.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';

const start = benchPerTest();

/** All samples, by name and labels as they stand there. */
async function scrape(webUrl: string): Promise<Map<string, number>> {
  const text = await (await fetch(`${webUrl}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

test("requests are counted under SGLang's names, with the model's as it labels them", async () => {
  const on = await start();
  const node = await on.node({ poolTokens: 1000, maxRunning: 4 });
  await answer(on, [5, 6, 7], { maxNewTokens: 8 });
  await answer(on, [5, 6, 7], { maxNewTokens: 8, constraint: { case: 'regex', value: 'a+' } });
  node.load = { usedTokens: 450, weightBytes: 3n << 30n, kvBytes: 1n << 29n };
  await node.report(true);
  const samples = await scrape(on.webUrl);
  const labels = `model_name="${on.relay.model.name}"`;
  const total = (name: string) => samples.get(`${name}{${labels}}`);
  expect(total('sglang:num_requests_total')).toBe(2);
  expect(total('sglang:num_so_requests_total')).toBe(1);
  expect(total('sglang:generation_tokens_total')).toBe(16);
  expect(total('sglang:queue_time_seconds_count')).toBe(2);
  expect(total('sglang:prompt_tokens_histogram_sum')).toBe(6);
  expect(total('sglang:generation_tokens_histogram_sum')).toBe(16);
  // Each token but a sample's first came after another.
  expect(total('sglang:inter_token_latency_seconds_count')).toBe(14);
  // This process is the relay's.
  expect(total('process_resident_memory_bytes')).toBeGreaterThan(20 * 2 ** 20);
  expect(total('process_cpu_seconds_total')).toBeGreaterThan(0);
  const ofNode = (name: string) => samples.get(`${name}{dp_rank="0",${labels}}`);
  expect(ofNode('sglang:utilization')).toBeCloseTo(0.5, 9);
  expect(ofNode('sglang:weight_memory_usage_gb')).toBe(3);
  expect(ofNode('sglang:kv_cache_memory_usage_gb')).toBe(0.5);
});

test('what never ran has no time in a queue, and a node that told no load no utilization', async () => {
  const on = await start({ startWaitMs: 100 });
  const { error } = await collect(on.client.stream(SglangScheduler.method.generate, requestOf([5])));
  expect(error).toBeDefined();
  await on.node();
  const samples = await scrape(on.webUrl);
  expect(samples.get(`sglang:queue_time_seconds_count{model_name="${on.relay.model.name}"}`)).toBe(0);
  expect([...samples.keys()].filter((name) => /utilization|memory_usage_gb/.test(name))).toEqual([]);
});
