// The only node's GPU goes away, while it loads, while prompts are computed, while tokens are made: the page comes back by
// itself, and what it was asked goes on, each token once, with the ids that it has in calm.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { GenerateRequest } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { pollPage, TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { CRASH_FLAGS, devicesOf, makeTrouble, servesAgain, type Trouble, watchDevices } from './harness/gpu-trouble.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, type Generated, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

vi.setConfig({ testTimeout: 120_000 });

type Phase = 'load' | 'prefill' | 'decode';

/** To serving again. */
const BACK_MS = 15_000;
const ENDS_MS = 60_000;
/** Told of each sample before the trouble, where tokens are made. */
const TOLD = 20;
const LONG = process.env.SHOAL_LONG === '1';

const ALL = { maxNewTokens: LONG ? 400 : 120, ignoreEos: true };
const decodes = [
  greedyRequest(PROMPT_IDS, ALL),
  greedyRequest(PROMPT_IDS.slice(0, 3), { ...ALL, temperature: 1, n: 3, customParams: { seed: 1234 } }),
  greedyRequest(PROMPT_IDS.slice(2), { ...ALL, frequencyPenalty: 0.4, repetitionPenalty: 1.2 }),
];
/** Each of several hundred ids of its own: prompts that take a while, and share nothing. */
const prefills = Array.from({ length: LONG ? 8 : 4 }, (_, i) =>
  greedyRequest([1, 300 + i, ...Array.from({ length: 480 }, (_, at) => 3 + ((at * (7 + 2 * i)) % 500))], {
    ...ALL,
    maxNewTokens: 8,
  }),
);
const loads = [greedyRequest(PROMPT_IDS, { maxNewTokens: 40 })];
const REQUESTS: Readonly<Record<Phase, readonly GenerateRequest[]>> = {
  load: loads,
  prefill: prefills,
  decode: decodes,
};

let relay: TestRelay;
let browser: TestBrowser | undefined;
const calm = new Map<Phase, readonly number[][][]>();

beforeAll(async () => {
  relay = await startRelay();
});

afterEach(async () => {
  await browser?.close();
  browser = undefined;
});

afterAll(async () => {
  await relay?.command.stop();
});

let asked = 0;
const outputs = (all: readonly Generated[]) => all.map(({ completes }) => completes.map(({ outputIds }) => outputIds));

function ask(phase: Phase, onChunk: (request: number) => void = () => {}): Promise<Generated[]> {
  const client = schedulerClient(relay.grpc);
  const answers = REQUESTS[phase].map((request, i) =>
    collect(client, { ...request, requestId: `trouble-${asked++}` }, { onChunk: () => onChunk(i) }),
  );
  const all = Promise.all(answers);
  all.catch(() => {});
  return all;
}

/** A page that has not joined, in a browser of its own. */
async function freshPage(flags: 'as any browser' | 'as shoal starts it'): Promise<Page> {
  browser = await TestBrowser.launch(flags === 'as any browser' ? { ignoreDefaultArgs: CRASH_FLAGS } : {});
  const page = await browser.open(relay.webUrl);
  await watchDevices(page);
  return page;
}

async function join(page: Page): Promise<void> {
  await page.getByRole('button', { name: /join/i }).click();
  await untilState(page, 'serving', 45_000);
}

async function learnCalm(phase: Phase): Promise<void> {
  if (!calm.has(phase)) calm.set(phase, outputs(await ask(phase)));
}

/** Makes trouble in the midst of the phase; where the page loads it has not joined, else it serves. Tells how long it was away. */
async function survives(trouble: Trouble, phase: Phase, page: Page, joined = phase !== 'load'): Promise<number> {
  const requests = REQUESTS[phase];
  if (joined) await learnCalm(phase);
  // What the calm has left in the prefix cache would be computed no more.
  if (phase === 'prefill') await schedulerClient(relay.grpc).flushCache({});
  if (phase === 'load') {
    const before = await devicesOf(page);
    // The trouble that makes a page load again may be the first of two.
    if (joined) await makeTrouble('destroy', browser!, page);
    else await page.getByRole('button', { name: /join/i }).click();
    await until('the node has a device', 20_000, async () => (await devicesOf(page)) > before);
  }
  const chunks = requests.map(() => 0);
  const answers = ask(phase, (i) => chunks[i]!++);
  if (phase === 'prefill') {
    await until('the node has the prompts', 10_000, async () => {
      const { loads } = await schedulerClient(relay.grpc).getLoads({});
      return (loads[0]?.numRunningReqs ?? 0) > 0;
    });
  } else if (phase === 'decode') {
    const samples = requests.map((request) => request.samplingParams!.n);
    await until('all streams run', 20_000, () => chunks.every((count, i) => count >= TOLD * samples[i]!));
  }
  if (phase !== 'decode') expect(Math.min(...chunks)).toBe(0);
  await makeTrouble(trouble, browser!, page);
  const awayMs = await servesAgain(page, BACK_MS, phase === 'load');
  const answered = await within('the ends of the streams', ENDS_MS, answers);
  if (joined) expect(outputs(answered)).toEqual(calm.get(phase));
  else expect(outputs(answered)[0]![0]).toEqual(OUTPUT_IDS.slice(0, 40));
  for (const generated of answered) {
    for (const [index, { outputIds }] of generated.completes.entries())
      expect(idsOf(generated, index)).toEqual(outputIds);
  }
  console.log(`${trouble} in ${phase}: serves again after ${awayMs.toFixed(0)} ms`);
  expect((await schedulerClient(relay.grpc).getLoads({})).loads).toHaveLength(1);
  return awayMs;
}

describe.skipIf(LONG)('the GPU goes away under the only node', () => {
  test('its device while it loads and while it makes tokens, its process while prompts are computed', async () => {
    const page = await freshPage('as any browser');
    await survives('destroy', 'load', page);
    await survives('destroy', 'decode', page);
    await survives('crash', 'prefill', page);
  });
});

describe.runIf(LONG)('the GPU goes away under the only node of a fresh browser', () => {
  const cases = (['destroy', 'crash'] as const).flatMap((trouble) =>
    (['load', 'prefill', 'decode'] as const).map((phase) => [trouble, phase] as const),
  );

  test.each(cases)('%s, %s', async (trouble, phase) => {
    const page = await freshPage('as any browser');
    if (phase !== 'load') await join(page);
    await survives(trouble, phase, page);
  });

  test('its process crashes twice, and Chromium gives no adapter: the page loads itself anew three times, then says what helps', async () => {
    const page = await freshPage('as any browser');
    await join(page);
    await survives('crash', 'decode', page);
    const answers = ask('decode');
    await until('the streams run', 20_000, async () => {
      const { loads } = await schedulerClient(relay.grpc).getLoads({});
      return (loads[0]?.numRunningReqs ?? 0) > 0;
    });
    let reloads = 0;
    page.on('framenavigated', () => reloads++);
    await makeTrouble('crash', browser!, page);
    const words = "document.querySelector('[role=alert]')?.textContent ?? ''";
    await until('the page loads itself anew three times', 40_000, () => reloads === 3);
    await pollPage(page, `/trying again each minute.*Reload this page/.test(${words})`, 15_000);
    expect(reloads).toBe(3);
    // As its user does, in time for what it was asked.
    await page.reload();
    await untilState(page, 'serving', BACK_MS);
    expect(outputs(await within('the ends of the streams', ENDS_MS, answers))).toEqual(calm.get('decode'));
  });

  test('its process crashes five times under a browser as shoal starts it', async () => {
    const page = await freshPage('as shoal starts it');
    await survives('crash', 'load', page);
    for (const phase of ['prefill', 'decode', 'load', 'decode'] as const) {
      await survives('crash', phase, page, true);
    }
  });
});
