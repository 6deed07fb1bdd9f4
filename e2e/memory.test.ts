// Nothing grows: 200 requests after a warm-up leave the page's heaps and GPU buffers as they were.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import { TestBrowser } from './harness/browser.ts';
import { PROMPT_IDS } from './harness/golden.ts';
import { restingCounters } from './harness/page-counters.ts';
import { HEAP_ARGS, pageHeap } from './harness/page-heap.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, schedulerClient } from './harness/scheduler.ts';

const WARM_UP = 120;
const REQUESTS = 200;
/** Compiled code and inline caches still settle; a request that left 1 kB behind would be seen. */
const HEAP_SLACK_BYTES = 200_000;

let relay: TestRelay;
let browser: TestBrowser;
let page: Page;
let client: SchedulerClient;

beforeAll(async () => {
  relay = await startRelay();
  browser = await TestBrowser.launch({ args: HEAP_ARGS });
  page = await browser.serve(relay.webUrl);
  client = schedulerClient(relay.grpc);
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

async function requests(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    // Short and of changing length and randomness, now and then a sample that ends by itself or is cut short.
    const sampling = {
      maxNewTokens: 4 + (i % 9),
      temperature: i % 3 === 0 ? 0 : 1,
      n: 1 + (i % 2),
      ignoreEos: i % 5 > 0,
    };
    const { completes } = await collect(client, greedyRequest(PROMPT_IDS, sampling));
    expect(completes).toHaveLength(sampling.n);
  }
}

test(`memory is flat over ${REQUESTS} requests`, { timeout: 150_000 }, async () => {
  await requests(WARM_UP);
  // Asking leaves something of the driver's in the window the first time.
  await restingCounters(page);
  await pageHeap(page);
  const before = { gpu: await restingCounters(page), heap: await pageHeap(page) };
  expect(before.gpu.gpuBytes).toBeGreaterThan(1_000_000);
  expect(before.heap.worker).toBeGreaterThan(100_000);

  await requests(REQUESTS);
  const after = await restingCounters(page);
  expect(after.gpuBytes).toBe(before.gpu.gpuBytes);
  expect(after.gpuBuffers).toBe(before.gpu.gpuBuffers);
  // What a later collection still frees is no leak: the least of a few measurements counts.
  const grown = { window: Number.POSITIVE_INFINITY, worker: Number.POSITIVE_INFINITY };
  for (let i = 0; i < 5 && Math.max(grown.window, grown.worker) >= HEAP_SLACK_BYTES; i++) {
    const now = await pageHeap(page);
    grown.window = Math.min(grown.window, now.window - before.heap.window);
    grown.worker = Math.min(grown.worker, now.worker - before.heap.worker);
    console.log(`heap bytes over ${REQUESTS} requests: window ${grown.window}, worker ${grown.worker}`);
  }
  expect(grown.worker).toBeLessThan(HEAP_SLACK_BYTES);
  expect(grown.window).toBeLessThan(HEAP_SLACK_BYTES);
  const [load] = (await client.getLoads({})).loads;
  expect(load!.numTotalReqs).toBe(0);
});
