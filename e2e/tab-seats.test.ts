// Tabs of one browser profile: on plain http two of them serve, since they share six connections; with TLS all do.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { keyPin } from '../src/cli/key-pin.ts';
import { selfSigned } from '../src/relay/testing/self-signed.ts';
import { expectAccessible } from './harness/accessible.ts';
import { TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const SERVING_MS = 60_000;
const TABS = 8;
const LONG = process.env.SHOAL_LONG === '1';

async function relayWith(...args: string[]): Promise<TestRelay> {
  const relay = await startRelay(args);
  onTestFinished(async () => {
    await relay.command.stop();
  });
  return relay;
}

/** A profile of a browser that ends with the test. */
async function profile(...args: string[]): Promise<BrowserContext> {
  const browser = await TestBrowser.launch({ args });
  onTestFinished(() => browser.close());
  return browser.browser.newContext();
}

async function tab(context: BrowserContext, relay: TestRelay): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${relay.webUrl}/?tune=off#join`, { timeout: 20_000 });
  return page;
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
const untilNodes = (relay: TestRelay, count: number) =>
  until(`${count} nodes`, 10_000, async () => (await schedulerClient(relay.grpc).getLoads({})).loads.length === count);

async function expectServes(relay: TestRelay): Promise<void> {
  const answer = await collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, { maxNewTokens: 12 }));
  expect(idsOf(answer)).toEqual(OUTPUT_IDS.slice(0, 12));
}

test('on plain http two tabs serve; a third says so, takes over where it is told to, or follows one that goes', async () => {
  const relay = await relayWith();
  const context = await profile();
  const first = await tab(context, relay);
  await untilState(first, 'serving', SERVING_MS);
  const second = await tab(context, relay);
  await untilState(second, 'serving', SERVING_MS);

  const third = await tab(context, relay);
  await untilState(third, 'waiting', 10_000);
  expect(await third.getByRole('status').innerText()).toMatch(/^Two tabs of this browser serve already/);
  await expectAccessible(third, 'a tab that waits');
  await untilNodes(relay, 2);

  await press(third, 'Take over');
  await untilState(third, 'serving', SERVING_MS);
  await untilState(first, 'left', 10_000);
  expect(await first.getByRole('alert').innerText()).toBe('Another tab of this browser has taken over.');
  await untilNodes(relay, 2);

  await press(first, 'Join');
  await untilState(first, 'waiting', 10_000);
  await press(first, 'Leave');
  await untilState(first, 'left', 5_000);
  await untilNodes(relay, 2);
  await expectServes(relay);
  if (!LONG) return;
  await press(first, 'Join');
  await untilState(first, 'waiting', 10_000);
  // As a tab that is closed does.
  await second.close();
  await untilState(first, 'serving', SERVING_MS);
  await untilNodes(relay, 2);
  await expectServes(relay);
});

test.runIf(LONG)(`with TLS ${TABS} tabs of one profile load, serve, leave and join`, { timeout: 300_000 }, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'shoal-seats-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const [certFile, keyFile] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
  const { cert, key } = selfSigned();
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
  const relay = await relayWith('--tls-cert', certFile, '--tls-key', keyFile);
  const context = await profile(`--ignore-certificate-errors-spki-list=${keyPin(certFile)}`);
  const tabs: Page[] = [];
  for (let i = 0; i < TABS; i++) tabs.push(await tab(context, relay));
  for (const page of tabs) await untilState(page, 'serving', SERVING_MS);
  await untilNodes(relay, TABS);
  await expectServes(relay);

  for (const page of tabs.slice(1)) await press(page, 'Leave');
  for (const page of tabs.slice(1)) await untilState(page, 'left', 10_000);
  await untilNodes(relay, 1);
  for (const page of tabs.slice(1)) await press(page, 'Join');
  for (const page of tabs) await untilState(page, 'serving', SERVING_MS);
  await untilNodes(relay, TABS);
  await expectServes(relay);
});
