// The relay comes to serve another build of the page: the open page finishes its work, and becomes it.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { readBuildInfo } from '../src/cli/paths.ts';
import { TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { installShoal, makeOtherBuild } from './harness/installed.ts';
import { TestProxy } from './harness/proxy.ts';
import { portsOf, startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

const OTHER_HASH = 'f'.repeat(64);
const closers: (() => Promise<unknown> | unknown)[] = [];
let browser: TestBrowser;

beforeAll(async () => {
  browser = await TestBrowser.launch();
});
afterAll(() => browser?.close());
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function relayWith(...args: Parameters<typeof startRelay>): Promise<TestRelay> {
  const relay = await startRelay(...args);
  closers.push(() => relay.command.stop());
  return relay;
}

async function serve(url: string): Promise<{ page: Page; loads: () => number }> {
  const page = await browser.serve(url);
  closers.push(() => page.context().close());
  let count = 0;
  page.on('load', () => {
    count++;
  });
  return { page, loads: () => count };
}

/** A shoal beside this one whose relay is of another build; its page is too, unless `page` is false. */
function otherShoal(options?: { page: boolean }): string {
  const installed = installShoal();
  closers.push(installed.remove);
  makeOtherBuild(installed, OTHER_HASH, options);
  return installed.script;
}

const buildOf = (page: Page) =>
  page.evaluate("document.querySelector('meta[name=shoal-build]').content.split(' ')[1]") as Promise<string>;

async function expectServes(relay: TestRelay): Promise<void> {
  const request = greedyRequest(PROMPT_IDS, { maxNewTokens: 12 });
  expect(idsOf(await collect(schedulerClient(relay.grpc), request))).toEqual(OUTPUT_IDS.slice(0, 12));
}

test('a page of another build finishes what runs, reloads itself once and serves again', async () => {
  const relay = await relayWith();
  const proxy = await TestProxy.open(relay.webUrl);
  closers.push(() => proxy.close());
  const { page, loads } = await serve(proxy.url);
  const client = schedulerClient(relay.grpc);

  let tokens = 0;
  let began = () => {};
  const first = new Promise<void>((resolve) => {
    began = resolve;
  });
  const sampling = { maxNewTokens: 490, ignoreEos: true, n: 6 };
  const answer = collect(client, greedyRequest(PROMPT_IDS, sampling), {
    onChunk: (chunk) => {
      tokens += chunk.tokenIds.length;
      began();
    },
  });
  await within('the first token', 20_000, first);
  // The stream is cut: what it resumes with is of another build.
  proxy.swap(readBuildInfo().pageHash, OTHER_HASH);
  expect(tokens).toBeLessThan(6 * 490);

  const generated = await within('the rest of the tokens', 30_000, answer);
  for (let index = 0; index < 6; index++) {
    const ids = idsOf(generated, index);
    expect(ids).toHaveLength(490);
    expect(ids.slice(0, OUTPUT_IDS.length)).toEqual(OUTPUT_IDS);
  }
  await until('the page is the other build', 15_000, async () => (await buildOf(page).catch(() => '')) === OTHER_HASH);
  await untilState(page, 'serving', 30_000);
  await expectServes(relay);
  expect(loads()).toBe(1);
});

test('a relay that comes back as another build makes its open page reload once', async () => {
  const relay = await relayWith();
  const { page, loads } = await serve(relay.webUrl);
  expect(await buildOf(page)).toBe(readBuildInfo().pageHash);
  await relay.command.kill();

  const again = await relayWith(portsOf(relay), undefined, otherShoal());
  await until('the page is the other build', 20_000, async () => (await buildOf(page).catch(() => '')) === OTHER_HASH);
  await untilState(page, 'serving', 30_000);
  await expectServes(again);
  expect(loads()).toBe(1);
  expect((await schedulerClient(again.grpc).getLoads({})).loads).toHaveLength(1);
});

test('a page that never becomes what its relay asks for gives up after three reloads', async () => {
  const relay = await relayWith();
  const { page, loads } = await serve(relay.webUrl);
  await relay.command.kill();

  await relayWith(portsOf(relay), undefined, otherShoal({ page: false }));
  await untilState(page, 'error', 45_000);
  expect(loads()).toBe(3);
  expect(await page.locator('body').innerText()).toMatch(/another build.*reloading the page did not help/);
  // A person can still ask for it.
  expect(await page.getByRole('button', { name: /join/i }).isEnabled()).toBe(true);
});
