// A tab that nobody looks at: it serves on as fast as before, in a browser that slows hidden tabs as any other does.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../src/cli/net.ts';
import { expectAccessible } from './harness/accessible.ts';
import { pollPage, TestBrowser } from './harness/browser.ts';
import { PROMPT_IDS } from './harness/golden.ts';
import { RawTab } from './harness/raw-tab.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, schedulerClient } from './harness/scheduler.ts';

const LONG = process.env.SHOAL_LONG === '1';
/** Flags by which a browser that shoal or Playwright starts slows nothing. */
const UNSLOWED = [
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
];
const TOKENS = 450;

let relay: TestRelay;
let browser: TestBrowser;
let port = 0;

beforeAll(async () => {
  if (!LONG) return;
  relay = await startRelay();
  port = await freePort();
  browser = await TestBrowser.launch({ args: [`--remote-debugging-port=${port}`], ignoreDefaultArgs: UNSLOWED });
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

/** Tokens a second of four streams together. */
async function speed(): Promise<number> {
  const start = performance.now();
  const request = () => greedyRequest(PROMPT_IDS, { maxNewTokens: TOKENS, ignoreEos: true });
  await Promise.all([1, 2, 3, 4].map(() => collect(schedulerClient(relay.grpc), request())));
  return (4 * TOKENS * 1_000) / (performance.now() - start);
}

test.runIf(LONG)('a hidden tab makes tokens as fast as one that is shown, and tells that it is hidden', async () => {
  // Not Playwright's pages, which it holds to be shown whatever is before them.
  const first = await RawTab.open(port, `${relay.webUrl}/?tune=off#join`);
  await first.until("document.documentElement.dataset.state === 'serving'", 45_000);
  await speed();
  await first.activate();
  expect(await first.evaluate('document.hidden')).toBe(false);
  const shown = await speed();
  const second = await RawTab.open(port, 'about:blank');
  await second.activate();
  await first.until('document.hidden', 5_000);
  const hidden = await speed();
  await first.activate();
  await first.until('!document.hidden', 5_000);
  console.log(`tokens a second: ${shown.toFixed(0)} shown, ${hidden.toFixed(0)} hidden`);
  // Timers of a hidden window fire once a second: a loop that they pace would make a fraction of it.
  expect(hidden).toBeGreaterThan(0.5 * shown);
  const log = await first.evaluate("document.querySelector('.log').innerText");
  expect(log).toContain('Hidden: goes on');
  expect(log).toContain('Shown again');
  await first.close();
  await second.close();
});

test.runIf(LONG)(
  'by its user’s word it keeps the screen on and plays what nobody hears, as long as it serves',
  async () => {
    const page = await browser.open(relay.webUrl);
    await page.evaluate(`(() => {
    window.locks = [];
    const { request } = WakeLock.prototype;
    WakeLock.prototype.request = async function (type) {
      const lock = await request.call(this, type);
      window.locks.push(lock);
      return lock;
    };
    window.sounds = [];
    const { AudioContext } = window;
    window.AudioContext = class extends AudioContext {
      constructor() { super(); window.sounds.push(this); }
    };
  })()`);
    await page.getByRole('checkbox', { name: 'Keep the screen on' }).check();
    await page.getByRole('checkbox', { name: 'Play a sound that nobody hears' }).check();
    expect(await page.evaluate('window.locks.length + window.sounds.length')).toBe(0);
    await page.getByRole('button', { name: 'Join', exact: true }).click();
    await pollPage(
      page,
      "window.locks.some(({ released }) => !released) && window.sounds.some(({ state }) => state === 'running')",
      10_000,
    );
    await expectAccessible(page, 'in the background');
    await page.getByRole('button', { name: 'Leave', exact: true }).click();
    await pollPage(
      page,
      "window.locks.every(({ released }) => released) && window.sounds.every(({ state }) => state === 'closed')",
      10_000,
    );
    // Kept for the next visit.
    await page.reload();
    expect(await page.getByRole('checkbox', { name: 'Keep the screen on' }).isChecked()).toBe(true);
    expect(browser.errors).toEqual([]);
    await page.context().close();
  },
);
