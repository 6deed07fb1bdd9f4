// Random load for half a minute (30 in the long tier, any time with `npm run soak -- --minutes N`): nothing grows, nothing
// hangs, nothing fails, and every block comes back.
import { readFileSync } from 'node:fs';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import type { GenerateRequest, SamplingParams } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { Random } from '../src/gpu/testing/random.ts';
import { TestBrowser } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { pageCounters, restingCounters } from './harness/page-counters.ts';
import { HEAP_ARGS, leastHeap } from './harness/page-heap.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, type Generated, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { CASE_OF, STRUCTURED } from './harness/structured.ts';
import { within } from './harness/wait.ts';

const MINUTES = Number(process.env.SHOAL_SOAK_MINUTES ?? (process.env.SHOAL_LONG === '1' ? 30 : 0.5));
const SEED = Number(process.env.SHOAL_SOAK_SEED ?? Math.floor(Math.random() * 2 ** 32));
/** Load comes in spells; after each the page is at rest and is measured. The first one warms up. */
const SPELLS = Math.max(4, Math.min(20, Math.round(MINUTES)));
const SPELL_MS = (MINUTES * 60_000) / SPELLS;
/** At once: each request has 1 to 3 samples, and the page runs 64. */
const CLIENTS = 20;
const BURST = 60;
/** No request takes longer, however many run. */
const STUCK_MS = 90_000;
const CONTEXT = 512;
/** Compiled code, caches and feedback still settle. */
const HEAP_SLACK_BYTES = 1_000_000;
/** Node's heap grows to a size that suits it before it collects. */
const RSS_SLACK_BYTES = 96 << 20;

const random = new Random(SEED);
const prefixes = [20, 64, 131, 250].map((length) => [1, ...randomIds(length)]);
const counts = { ended: 0, aborted: 0, left: 0, golden: 0, tokens: 0, cachedTokens: 0, mostWaiting: 0 };
const failures: string[] = [];

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

function randomIds(length: number): number[] {
  return Array.from({ length }, () => random.integer(3, 511));
}

/** A prompt of its own, or one that shares its beginning with others. */
function randomPrompt(): number[] {
  if (random.uniform() < 0.25) return [1, ...randomIds(random.integer(0, 60))];
  const prefix = prefixes[random.integer(0, prefixes.length - 1)]!;
  return [...prefix.slice(0, random.integer(1, prefix.length)), ...randomIds(random.integer(0, 40))];
}

function randomRequest(): GenerateRequest {
  const ids = randomPrompt();
  const long = random.uniform() < 0.1;
  const maxNewTokens = Math.min(CONTEXT - ids.length - 1, long ? random.integer(100, 300) : random.integer(1, 40));
  const sampled = random.uniform() < 0.6;
  const sampling = {
    maxNewTokens,
    n: random.integer(1, 3),
    temperature: sampled ? 0.2 + 1.3 * random.uniform() : 0,
    topK: random.uniform() < 0.3 ? random.integer(1, 50) : -1,
    topP: random.uniform() < 0.3 ? 0.3 + 0.7 * random.uniform() : 1,
    ignoreEos: random.uniform() < 0.7,
    ...(random.uniform() < 0.2 ? { frequencyPenalty: random.uniform(), repetitionPenalty: 1.2 } : {}),
    ...(random.uniform() < 0.1 ? { constraint: randomConstraint() } : {}),
    ...(random.uniform() < 0.1 ? { streamInterval: random.integer(1, 9) } : {}),
  };
  const logprobs = random.uniform() < 0.15;
  return greedyRequest(ids, sampling, {
    ...(logprobs
      ? { returnLogprob: true, topLogprobsNum: random.integer(0, 5), logprobStartLen: random.integer(-1, 3) }
      : {}),
    ...(random.uniform() < 0.05 ? { returnHiddenStates: true } : {}),
  });
}

function randomConstraint(): SamplingParams['constraint'] {
  const { kind, text } = STRUCTURED[random.integer(0, STRUCTURED.length - 1)]!;
  return { case: CASE_OF[kind], value: text };
}

/** One request from its start to its end, whatever that is to be; what should not be is a failure. */
async function oneRequest(): Promise<void> {
  const fate = random.uniform();
  try {
    if (fate < 0.08) await golden();
    else if (fate < 0.18) await aborted();
    else if (fate < 0.28) await left();
    else ended(await bounded(collectAll(randomRequest())), 'ended');
  } catch (error) {
    failures.push(error instanceof ConnectError ? `${Code[error.code]}: ${error.rawMessage}` : String(error));
  }
}

const bounded = <T>(promise: Promise<T>) => within('the end of a request', STUCK_MS, promise);

interface Collected extends Generated {
  readonly request: GenerateRequest;
}

async function collectAll(request: GenerateRequest, options: Parameters<typeof collect>[2] = {}): Promise<Collected> {
  return { ...(await collect(client, request, options)), request };
}

/** Every sample has its one complete, and all its tokens came before it. */
function ended({ request, chunks, completes, ...generated }: Collected, as: 'ended' | 'aborted'): void {
  const { n, maxNewTokens } = request.samplingParams!;
  for (let index = 0; index < n; index++) {
    const complete = completes[index];
    if (complete === undefined) throw new Error(`sample ${index} of ${n} has no complete`);
    const { finishReason, completionTokens, cachedTokens } = complete;
    const reasons = as === 'ended' ? ['stop', 'length'] : ['stop', 'length', 'abort'];
    if (!reasons.includes(finishReason)) throw new Error(`a sample ended with ${finishReason}`);
    const ids = idsOf({ chunks, completes, ...generated }, index);
    if (ids.length !== completionTokens) throw new Error(`${ids.length} ids came, ${completionTokens} were counted`);
    if (finishReason === 'length' && completionTokens !== maxNewTokens) {
      throw new Error(`length after ${completionTokens} of ${maxNewTokens} tokens`);
    }
    counts.tokens += completionTokens;
    counts.cachedTokens += cachedTokens;
  }
  counts[as]++;
}

/** Greedy, with the answer known: company must not change it. */
async function golden(): Promise<void> {
  const length = random.integer(1, 60);
  const generated = await bounded(collectAll(greedyRequest(PROMPT_IDS, { maxNewTokens: length })));
  if (idsOf(generated).join() !== OUTPUT_IDS.slice(0, length).join()) throw new Error('a greedy answer changed');
  ended(generated, 'ended');
  counts.golden++;
}

/** Aborted by its id: queued, in prefill, in decode, or just over. */
async function aborted(): Promise<void> {
  const request = randomRequest();
  const whole = collectAll(request);
  whole.catch(() => {});
  await sleep(random.uniform() * 1_500);
  await client.abort({ requestId: request.requestId });
  ended(await bounded(whole), 'aborted');
}

/** Its client goes, before its first token or in the middle. */
async function left(): Promise<void> {
  const request = randomRequest();
  const leave = new AbortController();
  const most = random.integer(0, 12);
  let seen = 0;
  const whole = collectAll(request, {
    signal: leave.signal,
    onChunk: () => {
      if (++seen >= most) leave.abort();
    },
  });
  const timer = setTimeout(() => leave.abort(), random.uniform() * 2_000);
  try {
    ended(await bounded(whole), 'ended');
  } catch (error) {
    if (!(leave.signal.aborted && ConnectError.from(error).code === Code.Canceled)) throw error;
    counts.left++;
  } finally {
    clearTimeout(timer);
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Load until `untilAt`, then until all of it has ended: a steady stream, and now and then more than can run. */
async function spell(untilAt: number): Promise<void> {
  const steady = Array.from({ length: CLIENTS }, async () => {
    while (performance.now() < untilAt) {
      await oneRequest();
      if (random.uniform() < 0.2) await sleep(random.uniform() * 300);
    }
  });
  const bursts = (async () => {
    // The last one has time to end.
    while (performance.now() < untilAt - Math.min(8_000, SPELL_MS / 2)) {
      await sleep(2_000 + random.uniform() * 4_000);
      let under = true;
      const burst = Promise.all(Array.from({ length: BURST }, oneRequest)).finally(() => {
        under = false;
      });
      // It waits at the page for as long as that takes: not at any one time on a busy machine.
      while (under) {
        await sleep(100);
        counts.mostWaiting = Math.max(counts.mostWaiting, (await pageCounters(page))?.waiting ?? 0);
      }
      await burst;
    }
  })();
  await Promise.all([...steady, bursts]);
}

/** What is held at rest, with the prefix cache emptied. */
async function atRest() {
  const { success, message } = await client.flushCache({ timeoutS: 20 });
  if (!success) throw new Error(`the cache was not flushed: ${message}`);
  const { gpuBytes, gpuBuffers, usedTokens, cachedTokens } = await restingCounters(page, 20_000);
  const [load] = (await client.getLoads({})).loads;
  const heap = await leastHeap(page);
  return { gpuBytes, gpuBuffers, usedTokens, cachedTokens, jobs: load!.numTotalReqs, rss: relayRss(), ...heap };
}

/** Memory of the relay's process; 0 where the system doesn't tell. */
function relayRss(): number {
  if (process.platform !== 'linux') return 0;
  const status = readFileSync(`/proc/${relay.command.process.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) * 1_024;
}

test(`${MINUTES} min of random load, seed ${SEED}`, { timeout: MINUTES * 60_000 * 2 + 240_000 }, async () => {
  console.log(`soak of ${MINUTES} min in ${SPELLS} spells, seed ${SEED}`);
  const rests: Awaited<ReturnType<typeof atRest>>[] = [];
  const startedAt = performance.now();
  for (let i = 0; i < SPELLS; i++) {
    await spell(startedAt + (i + 1) * SPELL_MS);
    expect(failures, `seed ${SEED}`).toEqual([]);
    const rest = await atRest();
    rests.push(rest);
    const { gpuBytes, gpuBuffers, rss, window, worker } = rest;
    const mebi = (bytes: number) => `${(bytes / 2 ** 20).toFixed(2)} MiB`;
    console.log(
      `${((performance.now() - startedAt) / 60_000).toFixed(1)} min: ${JSON.stringify(counts)}, GPU ${mebi(gpuBytes)} in ` +
        `${gpuBuffers} buffers, heap of window ${mebi(window)} and worker ${mebi(worker)}, relay ${mebi(rss)}`,
    );
    expect(rest).toMatchObject({ usedTokens: 0, cachedTokens: 0, jobs: 0 });
    expect({ gpuBytes, gpuBuffers }).toEqual({ gpuBytes: rests[0]!.gpuBytes, gpuBuffers: rests[0]!.gpuBuffers });
  }
  expect(await page.evaluate('document.documentElement.dataset.state')).toBe('serving');
  expect(browser.errors).toEqual([]);
  for (const kind of ['ended', 'aborted', 'left', 'golden'] as const) expect(counts[kind], kind).toBeGreaterThan(0);
  // More came than could run.
  expect(counts.mostWaiting).toBeGreaterThan(0);
  const [, warm] = rests;
  const late = rests.slice(-2);
  const grown = (of: 'window' | 'worker' | 'rss') => Math.min(...late.map((rest) => rest[of])) - warm![of];
  console.log(`grown since warm: window ${grown('window')}, worker ${grown('worker')}, relay ${grown('rss')} bytes`);
  expect(grown('worker')).toBeLessThan(HEAP_SLACK_BYTES);
  expect(grown('window')).toBeLessThan(HEAP_SLACK_BYTES);
  expect(grown('rss')).toBeLessThan(RSS_SLACK_BYTES);
});
