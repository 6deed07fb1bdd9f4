// A relay that is open to others: tokens, TLS and HTTP/2, and a real page that comes in by a link.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyPin } from '../src/cli/key-pin.ts';
import { selfSigned } from '../src/relay/testing/self-signed.ts';
import { TestBrowser, untilState, waitUntilServing } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const TOKEN = 'node-token-0123456789=';
const SERVING_MS = 45_000;
const LONG = process.env.SHOAL_LONG === '1';

let dir: string;
let relay: TestRelay;
let browser: TestBrowser;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-trust-'));
  const { cert, key } = selfSigned();
  writeFileSync(join(dir, 'cert.pem'), cert);
  writeFileSync(join(dir, 'key.pem'), key);
  writeFileSync(join(dir, 'tokens'), `node ${TOKEN}\noperator operator-token-0123456789\n`);
  relay = await startRelay([
    ...['--tls-cert', join(dir, 'cert.pem'), '--tls-key', join(dir, 'key.pem')],
    ...['--token-file', join(dir, 'tokens')],
  ]);
  const pin = `--ignore-certificate-errors-spki-list=${keyPin(join(dir, 'cert.pem'))}`;
  browser = await TestBrowser.launch({ args: [pin] });
});
afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
  rmSync(dir, { recursive: true });
});

const nodes = async () => (await schedulerClient(relay.grpc).getLoads({})).loads.length;
const addressOf = (page: Page) => page.evaluate('location.href') as Promise<string>;
const generate = (sampling: Parameters<typeof greedyRequest>[1]) =>
  collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, sampling));

test('a page without the token says what it lacks', async () => {
  const page = await browser.open(`${relay.webUrl}/#join`);
  await untilState(page, 'error', 10_000);
  expect(await page.locator('[role=alert]').innerText()).toBe(
    'this relay asks for a token: open the link that you were given',
  );
  await page.context().close();
  // Its refused requests are in the console, by the browser itself.
  expect(browser.errors.splice(0).filter((line) => !line.includes('401'))).toEqual([]);
});

test('a page serves by its link, over HTTP/2, under its policy, and keeps its token to itself', async () => {
  const page = await browser.open(`${relay.webUrl}/#join=${TOKEN}`);
  await waitUntilServing(page, SERVING_MS);
  expect(await addressOf(page)).toMatch(/^https:[^#]+#join$/);
  const seen = await page.evaluate(
    'JSON.stringify([document.cookie, localStorage, document.documentElement.outerHTML])',
  );
  expect(seen).not.toContain(TOKEN);
  expect(await page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol")).toBe('h2');
  expect(idsOf(await generate({ maxNewTokens: 12 }))).toEqual(OUTPUT_IDS.slice(0, 12));
  // Its constraint is compiled in WebAssembly, in a Web Worker of its own.
  const { completes } = await generate({ maxNewTokens: 20, constraint: { case: 'regex', value: 'a' } });
  expect(completes[0]?.finishReason).toBe('stop');

  if (LONG) {
    // Its storage has the token for a reload.
    await page.reload();
    await waitUntilServing(page, SERVING_MS);
    expect(await nodes()).toBe(1);
  }
  expect(browser.errors).toEqual([]);

  // It says Detach in the name of its session.
  await page.context().close({ reason: 'the test' });
  await until('the node is gone', 5_000, async () => (await nodes()) === 0);
});

// src/relay/auth/revocation.node.test.ts tries the same without a browser.
test.runIf(LONG)('a token that is revoked takes its page along, which says why', async () => {
  const page = await browser.open(`${relay.webUrl}/#join=${TOKEN}`);
  await waitUntilServing(page, SERVING_MS);
  writeFileSync(join(dir, 'tokens'), 'operator operator-token-0123456789\n');
  relay.command.process.kill('SIGHUP');
  await untilState(page, 'error', 10_000);
  expect(await page.locator('[role=alert]').innerText()).toBe('The token was revoked.');
  expect(await nodes()).toBe(0);
  await page.context().close();
});
