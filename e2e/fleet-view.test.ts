// The Fleet view, used as a person would: signing in, reading, sorting, by keys, on a narrow screen, in both themes, while
// the relay goes and comes. How it fares for an hour is in fleet-hour.test.ts.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';
import { expectAccessible } from './harness/accessible.ts';
import { TestBrowser } from './harness/browser.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { ScriptedFleet } from './harness/scripted-fleet.ts';
import { until } from './harness/wait.ts';

const pictures = join(packageRoot, 'test-results');
const OPERATOR = 'operator-token-0123456789';
const CLIENT = 'client-token-0123456789';
const NODE = 'node-token-0123456789';
const NODES = 9;

let relay: TestRelay;
let fleet: ScriptedFleet;
let browser: TestBrowser;

beforeAll(async () => {
  mkdirSync(pictures, { recursive: true });
  relay = await startRelay(['--operator-token', OPERATOR, '--client-token', CLIENT, '--node-token', NODE]);
  fleet = await ScriptedFleet.open(relay, NODES, 20, NODE);
  fleet.serve(relay, 3, 40);
  browser = await TestBrowser.launch();
});

afterAll(async () => {
  await browser?.close();
  await fleet?.close();
  await relay?.command.stop();
});

const badge = (page: Page) => page.locator('.view-head').getByRole('status');
const table = (page: Page) => page.getByRole('region', { name: 'Table of nodes' }).getByRole('table');
const column = (page: Page, name: string) => table(page).getByRole('columnheader', { name });
/** A line's cells, by its rank. */
const line = (page: Page, rank: number) =>
  table(page)
    .getByRole('row')
    .filter({ has: page.getByRole('rowheader', { name: String(rank), exact: true }) });

async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function openAs(token: string): Promise<Page> {
  const page = await browser.open(`${relay.webUrl}/#fleet`);
  await signIn(page, token);
  await badge(page).getByText('live').waitFor({ timeout: 15_000 });
  return page;
}

test('asks for a token, says what is wrong with one, and shows each role what it may see', async () => {
  const page = await browser.open(`${relay.webUrl}/#fleet`);
  await page.getByRole('heading', { name: 'Sign in to see the fleet' }).waitFor({ timeout: 15_000 });
  await expectAccessible(page, 'signed out');
  let asked = 0;
  page.on('request', () => {
    asked++;
  });
  await sleep(1_500);
  expect(asked).toBe(0);
  await page.screenshot({ path: join(pictures, 'fleet-signed-out.png') });
  await signIn(page, 'not-a-token-0123456789');
  await page.getByRole('alert').getByText('does not take the token').waitFor({ timeout: 5_000 });
  await signIn(page, NODE);
  await page.getByRole('alert').getByText('node role may not').waitFor({ timeout: 5_000 });

  await signIn(page, CLIENT);
  await badge(page).getByText('live').waitFor({ timeout: 5_000 });
  await page.getByText("what a client's token shows").waitFor();
  expect(await table(page).getByRole('row').count()).toBe(1 + NODES);
  // What it may not see isn't there, rather than empty.
  expect(await column(page, 'Node').count()).toBe(0);
  expect(await page.getByRole('heading', { name: /Requests|The last hour/ }).count()).toBe(0);
  await expectAccessible(page, 'as a client');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in to see the fleet' }).waitFor({ timeout: 5_000 });
  await signIn(page, OPERATOR);
  await page.getByRole('heading', { name: 'The last hour' }).waitFor({ timeout: 5_000 });
  expect(await page.evaluate('JSON.stringify([localStorage, document.cookie])')).not.toContain(OPERATOR);
  // For this tab's reloads, and with it gone.
  await page.reload();
  await badge(page).getByText('live').waitFor({ timeout: 15_000 });
  await page.context().close();
  // Its refused requests are in the console, by the browser itself.
  expect(browser.errors.splice(0).filter((text) => !/40[13]/.test(text))).toEqual([]);
});

test('tells nodes as they are: what is unknown is no zero, and counts come from the relay', async () => {
  const page = await openAs(OPERATOR);
  const first = line(page, 0);
  await first.getByText('scripted-000').waitFor({ timeout: 5_000 });
  expect(await first.innerText()).toMatch(/google swiftshader, software[\s\S]*serving[\s\S]*stories260K[\s\S]*10\.0/);
  expect(await line(page, 3).innerText()).toContain('hidden tab');
  // It told nothing of itself.
  const silent = (await line(page, 6).innerText()).split('\t');
  expect(silent.slice(7, 10).map((cell) => cell.trim())).toEqual(['–', '–', '–']);
  const stats = page.locator('.stats').first();
  expect(await stats.innerText()).toMatch(/^Nodes serving\s+9\s+of 9\s/);
  await until('requests are counted', 15_000, async () =>
    /Requests\s+[1-9]\d*\s+0 not complete/.test(await page.locator('.stats').nth(1).innerText()),
  );
  expect(await page.locator('.stats').nth(1).innerText()).toMatch(/First token\s+\d+(\.\d)? ms\s+p99 \d/);

  // A node leaves, and another stands still.
  await fleet.nodes[8]!.detach();
  await until('the node that left is gone', 5_000, async () => (await line(page, 8).count()) === 0);
  fleet.nodes[7]!.dropStream();
  await line(page, 7).getByText('out of reach').waitFor({ timeout: 5_000 });
  await fleet.nodes[7]!.reconnect();
  await line(page, 7).getByText('serving').waitFor({ timeout: 5_000 });
  await page.context().close();
});

test('sorts by a column’s head, by keys too', async () => {
  const page = await openAs(OPERATOR);
  await line(page, 0).waitFor();
  const ranks = async () => (await table(page).getByRole('rowheader').allInnerTexts()).map(Number);
  expect(await ranks()).toEqual((await ranks()).toSorted((a, b) => a - b));
  await column(page, 'Tokens/s').getByRole('button').focus();
  await page.keyboard.press('Enter');
  expect(await column(page, 'Tokens/s').getAttribute('aria-sort')).toBe('descending');
  // Each tells more than the one before; what tells nothing is last.
  expect((await ranks()).slice(0, 3)).toEqual([7, 5, 4]);
  expect((await ranks()).at(-1)).toBe(6);
  await page.keyboard.press('Space');
  expect(await column(page, 'Tokens/s').getAttribute('aria-sort')).toBe('ascending');
  expect((await ranks()).slice(0, 3)).toEqual([0, 1, 2]);
  await page.context().close();
});

test('a request’s line opens to its events', async () => {
  const page = await openAs(OPERATOR);
  const requests = page.getByRole('region', { name: 'Table of requests' });
  const ended = requests.getByRole('row').filter({ hasText: 'complete' });
  await ended.first().waitFor({ timeout: 10_000 });
  await page.getByRole('button', { name: 'Pause' }).click();
  await badge(page).getByText('paused').waitFor();
  expect(await ended.first().getByRole('img').getAttribute('aria-label')).toMatch(/^queued .*, prefill .*, decode /);
  await ended.first().getByRole('button').click();
  const events = await requests.locator('.request-events').innerText();
  expect(events).toMatch(/^e2e-\S+ 1 sample, \d+ prompt tokens, 0 of them cached, \d+ made/);
  expect(events).toMatch(/came[\s\S]*given to rank \d[\s\S]*first token[\s\S]*ended: complete/);
  await expectAccessible(page, 'a request’s events');
  await page.context().close();
});

test('charts read out by keys and as a table, in both themes and on a narrow screen', async () => {
  const page = await openAs(OPERATOR);
  const slider = page.getByRole('slider', { name: /^Throughput/ });
  await slider.waitFor({ timeout: 15_000 });
  await until('two points', 15_000, async () => Number(await slider.getAttribute('aria-valuemax')) >= 1);
  await slider.focus();
  const last = await slider.getAttribute('aria-valuenow');
  await page.keyboard.press('Home');
  await until('it reads the first point', 2_000, async () => (await slider.getAttribute('aria-valuenow')) === '0');
  expect(last).not.toBe('0');
  expect(await slider.getAttribute('aria-valuetext')).toMatch(/: tokens\/s [\d.]+$/);
  expect(await page.locator('.chart canvas').count()).toBe(9);
  await page.keyboard.press('Tab');

  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width: 1280, height: 800 });
    await sleep(700);
    await expectAccessible(page, scheme);
    await page.screenshot({ path: join(pictures, `fleet-${scheme}.png`), fullPage: true });
    await page.setViewportSize({ width: 360, height: 740 });
    await sleep(700);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
    await page.screenshot({ path: join(pictures, `fleet-${scheme}-narrow.png`), fullPage: true });
  }
  await page.getByRole('button', { name: 'As a table' }).click();
  const hour = page.getByRole('region', { name: 'Table of the last hour' });
  expect(await hour.getByRole('columnheader').allInnerTexts()).toContain('First token');
  expect(await hour.getByRole('rowheader').count()).toBeGreaterThan(0);
  await expectAccessible(page, 'as a table');
  await page.context().close();
});

/** Counts what changes in the page: each frame before which the DOM or a canvas did, however long that took. */
const COUNT_REDRAWS = `
  window.redraws = [];
  let noted = false;
  const note = () => {
    if (noted) return;
    noted = true;
    window.redraws.push(performance.now());
    requestAnimationFrame(() => requestAnimationFrame(() => { noted = false; }));
  };
  new MutationObserver(note).observe(document.querySelector('main'), {
    attributes: true, childList: true, characterData: true, subtree: true,
  });
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...args) {
    note();
    return clear.apply(this, args);
  };`;

test('redraws four times a second at most, whatever the pointer does, and not at all while hidden', async () => {
  const page = await openAs(OPERATOR);
  const slider = page.getByRole('slider', { name: /^Throughput/ });
  await slider.waitFor({ timeout: 15_000 });
  let asked = 0;
  page.on('request', () => {
    asked++;
  });
  await page.evaluate(COUNT_REDRAWS);
  const { x, y, width } = (await slider.boundingBox())!;
  const end = performance.now() + 5_000;
  for (let at = 0; performance.now() < end; at++) {
    await page.mouse.move(x + (width * (at % 50)) / 50, y + 40);
    await sleep(10);
  }
  const redraws = (await page.evaluate('window.redraws')) as number[];
  // The pointer's and the polls'.
  expect(redraws.length).toBeGreaterThan(5);
  for (const [at, from] of redraws.entries()) {
    const within = redraws.slice(at).filter((time) => time < from + 1_000).length;
    expect(within, JSON.stringify(redraws)).toBeLessThanOrEqual(4);
  }
  await page.mouse.move(0, 0);
  await sleep(500);

  const hide = (hidden: boolean) =>
    page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${hidden} });
      document.dispatchEvent(new Event('visibilitychange'));`);
  await hide(true);
  await sleep(300);
  asked = 0;
  await page.evaluate('window.redraws = []');
  await sleep(3_000);
  expect([asked, await page.evaluate('window.redraws.length')]).toEqual([0, 0]);
  await hide(false);
  await until('it asks again', 3_000, () => asked > 0);
  await page.context().close();
});

test('a fleet without a node, and a relay that goes and comes', async () => {
  const own = await startRelay();
  try {
    const page = await browser.open(`${own.webUrl}/#fleet`);
    await page.getByText('No node serves.').waitFor({ timeout: 15_000 });
    await expectAccessible(page, 'empty');
    await page.screenshot({ path: join(pictures, 'fleet-empty.png'), fullPage: true });
    await page.context().setOffline(true);
    await page.getByRole('alert').getByText('This browser is offline').waitFor({ timeout: 15_000 });
    await expectAccessible(page, 'offline');
    await page.screenshot({ path: join(pictures, 'fleet-offline.png'), fullPage: true });
    await page.context().setOffline(false);
    await badge(page).getByText('live').waitFor({ timeout: 20_000 });
    await own.command.stop();
    await page.getByRole('alert').getByText('The relay does not answer').waitFor({ timeout: 15_000 });
    // What was told before stays.
    await page.getByText('No node serves.').waitFor({ timeout: 1_000 });
    await page.context().close();
  } finally {
    await own.command.stop();
  }
  // Requests that fail are in the console, by the browser itself.
  expect(browser.errors.splice(0).filter((text) => !text.includes('Failed to load resource'))).toEqual([]);
});
