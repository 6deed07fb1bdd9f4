// Pages come and go, the relay too; no client hangs, nothing needs a reload.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pageState, pollPage, TestBrowser, untilState } from './harness/browser.ts';
import { skipGateway, type TestGateway, testGateway } from './harness/gateway.ts';
import { COMPLETION, OUTPUT_IDS, PROMPT, PROMPT_IDS } from './harness/golden.ts';
import { crashGpu } from './harness/gpu-trouble.ts';
import { post, postJson } from './harness/openai.ts';
import { portsOf, startRelay, type TestRelay } from './harness/relay.ts';
import { collect, failureOf, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

const SHORT_LEASE = ['--lease', '2s', '--heartbeat', '500ms', '--rejoin-wait', '0'];
const closers: (() => Promise<unknown>)[] = [];

afterAll(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function relayWith(...args: string[]): Promise<TestRelay> {
  const relay = await startRelay(args);
  closers.push(() => relay.command.stop());
  return relay;
}

async function browserWith(...args: Parameters<typeof TestBrowser.launch>): Promise<TestBrowser> {
  const browser = await TestBrowser.launch(...args);
  closers.push(() => browser.close());
  return browser;
}

/** Six samples of all that the context holds: seconds of work for a page. */
const longRequest = () => greedyRequest(PROMPT_IDS, { maxNewTokens: 500, ignoreEos: true, temperature: 1, n: 6 });

/** From now on every state that the page shows; they go where the page reloads. */
async function watchStates(page: Page): Promise<() => Promise<string[]>> {
  await page.evaluate(`(() => {
    window.states = [];
    new MutationObserver(() => window.states.push(document.documentElement.dataset.state))
      .observe(document.documentElement, { attributeFilter: ['data-state'] });
  })()`);
  return async () => (await page.evaluate('window.states')) as string[];
}

/** A request that runs: its first token is here. `failure` is how it ends. */
async function runningRequest(relay: TestRelay) {
  const client = schedulerClient(relay.grpc);
  let began = () => {};
  const first = new Promise<void>((resolve) => {
    began = resolve;
  });
  const failure = failureOf(collect(client, longRequest(), { onChunk: () => began() }));
  await within('the first token', 20_000, Promise.race([first, failure.then(() => {})]));
  return { client, failure };
}

async function nodes(relay: TestRelay): Promise<number> {
  return (await schedulerClient(relay.grpc).getLoads({})).loads.length;
}

async function expectServes(relay: TestRelay): Promise<void> {
  const request = greedyRequest(PROMPT_IDS, { maxNewTokens: 12 });
  expect(idsOf(await collect(schedulerClient(relay.grpc), request))).toEqual(OUTPUT_IDS.slice(0, 12));
}

describe('a page comes and goes', () => {
  let relay: TestRelay;
  let browser: TestBrowser;
  let page: Page | undefined;

  beforeAll(async () => {
    // A lease far longer than any bound: only Detach can end a stream in time.
    relay = await relayWith('--lease', '60s', '--rejoin-wait', '0');
    browser = await browserWith();
  });

  /** The page that the test before left serving, else a new one: to load one takes seconds. */
  async function servingPage(): Promise<Page> {
    if (page === undefined || (await pageState(page).catch(() => '')) !== 'serving') {
      await page?.context().close();
      page = await browser.serve(relay.webUrl);
    }
    return page;
  }

  test('when it leaves while its model still loads, it never becomes a node', async () => {
    page = await browser.open(relay.webUrl);
    let held = false;
    await page.context().route('**/model/files/**', () => {
      held = true;
    });
    await page.getByRole('button', { name: /join/i }).click();
    await until('the page asks for its model', 10_000, () => held);
    await untilState(page, 'loading', 1_000);
    const states = await watchStates(page);
    await page.getByRole('button', { name: /leave/i }).click();
    await untilState(page, 'left', 5_000);
    expect(await states()).not.toContain('serving');
    expect(await nodes(relay)).toBe(0);
  });

  test('a request that comes before the first node waits for it; a page that has left joins afresh', async () => {
    page ??= await browser.open(relay.webUrl);
    const client = schedulerClient(relay.grpc);
    const answer = collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens: 8 }));
    await until('the relay holds the request', 5_000, async () => {
      const text = await (await fetch(`${relay.webUrl}/metrics`)).text();
      return /^sglang:num_queue_reqs\{.*\} 1$/m.test(text);
    });
    // What was held while it loaded goes on, to nobody.
    await page.context().unrouteAll({ behavior: 'ignoreErrors' });
    await page.getByRole('button', { name: /join/i }).click();
    await untilState(page, 'serving', 30_000);
    expect(idsOf(await answer)).toEqual(OUTPUT_IDS.slice(0, 8));
    expect(await nodes(relay)).toBe(1);
  });

  test('when it comes back from the bfcache it attaches afresh', async () => {
    const page = await servingPage();
    // The browser's own events, as they come when a page is frozen and taken out again.
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))");
    await until('the relay has no node', 5_000, async () => (await nodes(relay)) === 0);
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
    await until('the page is a node again', 20_000, async () => (await nodes(relay)) === 1);
    await expectServes(relay);
  });

  test('when it leaves by its button it is no node any more, and joins again', async () => {
    const page = await servingPage();
    await page.getByRole('button', { name: /leave/i }).click();
    await untilState(page, 'left', 5_000);
    await until('the relay has no node', 2_000, async () => (await nodes(relay)) === 0);
    await page.getByRole('button', { name: /join/i }).click();
    await untilState(page, 'serving', 30_000);
    await expectServes(relay);
  });

  test('when its GPU process crashes it gets a new device by itself, and serves', async () => {
    const page = await servingPage();
    const states = await watchStates(page);
    const { failure } = await runningRequest(relay);
    const crashedAt = performance.now();
    await crashGpu(browser.browser);
    const { code, at } = await within('the end of the stream', 15_000, failure);
    expect(code).toBe('Unavailable');
    expect(at - crashedAt).toBeLessThan(10_000);
    await until('the page serves again', 20_000, async () => {
      const all = await states();
      return all.includes('loading') && all.at(-1) === 'serving';
    });
    expect(performance.now() - crashedAt).toBeLessThan(20_000);
    expect(await nodes(relay)).toBe(1);
    await expectServes(relay);
    expect(await page.getByRole('list', { name: 'Log' }).innerText()).toMatch(/The GPU was lost .*starts again/);
  });

  test.each([
    ['goes elsewhere', (page: Page) => page.goto('about:blank')],
    ['is closed', (page: Page) => page.close({ runBeforeUnload: true })],
  ])('when it %s its streams end with UNAVAILABLE within 5 s, and a new page serves', async (_, leave) => {
    const page = await servingPage();
    const { client, failure } = await runningRequest(relay);
    const leftAt = performance.now();
    await leave(page);
    const { code, at } = await within('the end of the stream', 10_000, failure);
    expect(code).toBe('Unavailable');
    expect(at - leftAt).toBeLessThan(5_000);

    expect((await client.healthCheck({})).healthy).toBe(false);
    expect(await nodes(relay)).toBe(0);
    expect(await servingPage()).not.toBe(page);
    expect((await client.healthCheck({})).healthy).toBe(true);
    await expectServes(relay);
  });
});

describe('a browser', () => {
  test('that is killed: its streams end within the lease and 5 s. Where a user goes back to a page, it serves', async () => {
    const relay = await relayWith(...SHORT_LEASE);
    const killed = await TestBrowser.launch();
    await killed.serve(relay.webUrl);
    const { client, failure } = await runningRequest(relay);
    const killedAt = performance.now();
    await killed.kill();
    const { code, at } = await within('the end of the stream', 15_000, failure);
    expect(code).toBe('Unavailable');
    expect(at - killedAt).toBeLessThan(2_000 + 5_000);
    expect((await client.healthCheck({})).healthy).toBe(false);

    const browser = await browserWith({ ignoreDefaultArgs: ['--disable-back-forward-cache'] });
    const page = await browser.serve(relay.webUrl);
    await expectServes(relay);
    await page.goto('about:blank');
    await until('the relay has no node', 5_000, async () => (await nodes(relay)) === 0);
    // Restored from the bfcache a page fires no `load`.
    await page.goBack({ waitUntil: 'commit' });
    await untilState(page, 'serving', 30_000);
    await until('the relay has one node', 5_000, async () => (await nodes(relay)) === 1);
    await expectServes(relay);
  });
});

test('no page within --start-wait is UNAVAILABLE', async () => {
  const relay = await relayWith('--start-wait', '300ms');
  const started = performance.now();
  const { code, at } = await failureOf(collect(schedulerClient(relay.grpc), longRequest()));
  expect(code).toBe('Unavailable');
  expect(at - started).toBeGreaterThan(250);
  expect(at - started).toBeLessThan(5_000);
});

describe('the relay goes', () => {
  let relay: TestRelay | undefined;
  let page: Page;

  /** The relay and the page that the test before left, else new ones. */
  async function serving(): Promise<TestRelay> {
    if (relay === undefined) {
      relay = await relayWith();
      page = await (await browserWith()).serve(relay.webUrl);
    }
    return relay;
  }

  test('before a page has joined: the page says so, goes on trying and joins by itself', async () => {
    const first = await relayWith();
    page = await (await browserWith()).open(first.webUrl);
    // All that the page loads before it joins is there; its load event doesn't wait for its Web Worker's script.
    await pollPage(page, "performance.getEntriesByType('resource').some(({ name }) => /worker/.test(name))", 10_000);
    await first.command.kill();
    await page.getByRole('button', { name: /join/i }).click();
    await pollPage(page, '/trying again/.test(document.body.innerText)', 10_000);
    const states = await watchStates(page);

    const again = await relayWith(...portsOf(first));
    await untilState(page, 'serving', 20_000);
    expect(await states()).not.toContain('error');
    await expectServes(again);
    relay = again;
  });

  test('and comes back: the open page attaches within 10 s without a reload', async () => {
    const first = await serving();
    relay = undefined;
    await page.evaluate('window.notReloaded = true');
    const { failure } = await runningRequest(first);
    await first.command.kill();
    await within('the end of the stream', 5_000, failure);
    await untilState(page, 'reconnecting', 20_000);

    const again = await relayWith(...portsOf(first));
    const backAt = performance.now();
    await until('the page is a node again', 10_000, async () => (await nodes(again)) === 1);
    expect(performance.now() - backAt).toBeLessThan(10_000);
    await untilState(page, 'serving', 2_000);
    expect(await page.evaluate('window.notReloaded')).toBe(true);
    await expectServes(again);
    relay = again;
  });

  test.skipIf(skipGateway !== undefined)(
    'and its gateway finds it again, and answers what was asked meanwhile',
    async () => {
      const first = await serving();
      const gateway: TestGateway = await testGateway(2, first.grpc);
      closers.push(() => gateway.close());
      const url = `${gateway.url}/v1/chat/completions`;
      const body = {
        model: 'stories260K',
        messages: [{ role: 'user', content: PROMPT }],
        temperature: 0,
        max_tokens: 20,
      };
      const ask = async () => (await postJson(url, body)).choices[0]!.message!.content;
      expect(COMPLETION.startsWith(await ask())).toBe(true);

      await first.command.kill();
      await until('the gateway sees that its worker is gone', 15_000, async () => {
        const response = await post(url, { ...body, max_tokens: 1 });
        await response.text();
        return !response.ok;
      });

      const again = await relayWith(...portsOf(first));
      // Back, and most likely still without a page: the request waits for one.
      const answer = await until('an answer', 20_000, async () => {
        const response = await post(url, body);
        const text = await response.text();
        return response.ok ? (JSON.parse(text) as { choices: { message: { content: string } }[] }) : undefined;
      });
      expect(COMPLETION.startsWith(answer.choices[0]!.message.content)).toBe(true);
      expect(await nodes(again)).toBe(1);
      await until('the gateway calls its worker healthy', 10_000, async () => {
        const { workers } = (await (await fetch(`${gateway.url}/workers`)).json()) as {
          workers: { is_healthy: boolean }[];
        };
        return workers.every((worker) => worker.is_healthy);
      });
    },
  );
});
