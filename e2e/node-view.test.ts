// The page's shell and its Node view, used as a person would: by roles and names, by keys alone, in both themes, on a
// narrow screen. What serving itself shows is in page.test.ts.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectAccessible } from './harness/accessible.ts';
import { pageState, pollPage, TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const SERVING_MS = 30_000;
let relay: TestRelay;
let browser: TestBrowser;

beforeAll(async () => {
  relay = await startRelay();
  browser = await TestBrowser.launch();
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

/** Waits until the page says so of its state. */
const untilStatus = (page: Page, words: RegExp) =>
  pollPage(page, `${words}.test(document.querySelector('[role=status]').textContent)`, 5_000, 50);
const generate = (maxNewTokens: number) =>
  collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, { maxNewTokens, ignoreEos: true }));

let shared: Promise<Page> | undefined;

/** A page that joins by its address, on a computer that `plug` takes off its charger: no protocol lets a test do it. */
function batteryPage(): Promise<Page> {
  shared ??= (async () => {
    const context = await browser.browser.newContext();
    await context.addInitScript(`(() => {
      const battery = Object.assign(new EventTarget(), { charging: true });
      window.plug = (charging) => { battery.charging = charging; battery.dispatchEvent(new Event('chargingchange')); };
      Navigator.prototype.getBattery = () => Promise.resolve(battery);
    })()`);
    const page = await context.newPage();
    browser.watch(page);
    await page.goto(`${relay.webUrl}/?tune=off#join`);
    return page;
  })();
  return shared;
}

/** Tab, until what is named has the focus. */
async function tabTo(page: Page, role: 'button' | 'slider', name: string): Promise<void> {
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press('Tab');
    const found = page.getByRole(role, { name, exact: true }).and(page.locator(':focus'));
    if ((await found.count()) === 1) return;
  }
  throw new Error(`no ${role} named ${name} is reached by Tab`);
}

test('joins all the same where the relay is away just as the Web Worker is to start', async () => {
  const page = await browser.open(relay.webUrl);
  await page.getByRole('button', { name: 'Join' }).waitFor();
  const away = /\/worker-[^/]*\.js$/;
  await page.route(away, (route) => route.abort());
  await page.getByRole('button', { name: 'Join' }).click();
  await untilState(page, 'serving', SERVING_MS);
  // The one that was there from the start ends; the next can't start.
  await page.getByRole('button', { name: 'Leave' }).click();
  await untilState(page, 'left', 10_000);
  await page.getByRole('button', { name: 'Join' }).click();
  await page.getByText("the relay did not send the Web Worker's script").first().waitFor({ timeout: 10_000 });
  await page.unroute(away);
  await untilState(page, 'serving', SERVING_MS);
  await page.context().close();
  expect(browser.errors.splice(0).filter((line) => !/ERR_FAILED/.test(line))).toEqual([]);
});

test('three views by their addresses and links, each accessible in both themes and on a narrow screen', async () => {
  const page = await browser.open(relay.webUrl);
  const heading = page.getByRole('heading', { level: 1 });
  const views = page.getByRole('navigation', { name: 'Views' });
  for (const title of ['Fleet', 'Playground', 'Node']) {
    await views.getByRole('link', { name: title }).click();
    await heading.getByText(title, { exact: true }).waitFor({ timeout: 10_000 });
    expect(await views.locator('[aria-current=page]').innerText()).toBe(title);
    expect(await page.title()).toBe(`${title} · shoal`);
    expect(new URL(page.url()).hash).toBe(`#${title.toLowerCase()}`);
  }
  await page.goBack();
  await heading.getByText('Playground', { exact: true }).waitFor({ timeout: 5_000 });
  await page.getByRole('button', { name: 'Theme: system' }).click();
  for (const theme of ['light', 'dark']) {
    await page.getByRole('button', { name: `Theme: ${theme}` }).waitFor({ timeout: 1_000 });
    for (const title of ['Node', 'Fleet', 'Playground']) {
      await views.getByRole('link', { name: title }).click();
      await heading.getByText(title, { exact: true }).waitFor({ timeout: 5_000 });
      await page.setViewportSize({ width: 1280, height: 800 });
      await expectAccessible(page, `${title}, ${theme}`);
      await page.setViewportSize({ width: 360, height: 740 });
      expect(await page.evaluate('document.documentElement.scrollWidth'), title).toBeLessThanOrEqual(360);
    }
    if (theme === 'light') await page.getByRole('button', { name: 'Theme: light' }).click();
  }
  await page.reload();
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
  await page.context().close();
});

test('by keys alone: join, limit, pause, resume and leave', async () => {
  const page = await browser.open(relay.webUrl);
  await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content');
  await page.keyboard.press('Enter');
  await tabTo(page, 'button', 'Join');
  await page.keyboard.press('Enter');
  await untilState(page, 'serving', SERVING_MS);
  await expectAccessible(page, 'serving');
  expect(await page.evaluate('document.getAnimations().length')).toBe(0);
  const whole = performance.now();
  await generate(60);
  const wholeMs = performance.now() - whole;

  await tabTo(page, 'slider', 'Share of GPU time');
  await page.keyboard.press('Home');
  const slider = page.getByRole('slider', { name: 'Share of GPU time' });
  expect(await slider.getAttribute('aria-valuetext')).toBe('5 %');
  await page.keyboard.press('ArrowRight');
  expect(await slider.getAttribute('aria-valuetext')).toBe('10 %');
  const tenth = performance.now();
  expect(idsOf(await generate(60)).slice(0, OUTPUT_IDS.length)).toEqual(OUTPUT_IDS.slice(0, 60));
  // Ten times as long, less what isn't the GPU's; duty-cycle.test.ts measures it by the clock of the steps.
  expect(performance.now() - tenth).toBeGreaterThan(2.5 * wholeMs);
  await page.keyboard.press('End');

  await page.getByRole('main').focus();
  await tabTo(page, 'button', 'Pause');
  await page.keyboard.press('Space');
  await untilStatus(page, /^Paused: /);
  let answered = false;
  const waits = generate(8).finally(() => {
    answered = true;
  });
  // As long as an answer takes otherwise, and longer.
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(answered).toBe(false);
  await page.keyboard.press('Space');
  await untilStatus(page, /^Serving\.$/);
  expect(idsOf(await waits)).toEqual(OUTPUT_IDS.slice(0, 8));
  await pollPage(page, 'document.querySelector("[data-counter=requests]").textContent === "3"', 5_000);
  expect(await page.locator('[data-counter=tokens]').innerText()).toBe('128');

  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await untilState(page, 'left', 5_000);
  const events = await page.getByRole('list', { name: 'Log' }).getByRole('listitem').allInnerTexts();
  const words = events.map((event) => event.split('\n').at(-1)).reverse();
  expect(words).toEqual([
    'Loads the model',
    'Loaded stories260K',
    'Looks for the relay',
    'Serves as rank 0',
    'Paused',
    'Resumed',
    'Hands work back',
    'Left',
  ]);
  await page.context().close();
});

test('an address that joins is left by leaving, and a link opened later joins', async () => {
  const page = await batteryPage();
  const views = page.getByRole('navigation', { name: 'Views' });
  await views.getByRole('link', { name: 'Fleet' }).click();
  await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor({ timeout: 5_000 });
  expect(['loading', 'attaching', 'serving']).toContain(await pageState(page));
  await views.getByRole('link', { name: 'Node' }).click();
  await page.getByRole('button', { name: 'Leave' }).click();
  await untilState(page, 'left', 5_000);
  await page.goBack();
  await page.goBack();
  expect(new URL(page.url()).hash).toBe('#node');
  expect(await pageState(page)).toBe('left');
  await page.evaluate("location.hash = '#join'");
  await untilState(page, 'serving', SERVING_MS);
});

test('only while idle and plugged in: holds off, says why, and goes on', async () => {
  const page = await batteryPage();
  await untilState(page, 'serving', SERVING_MS);
  await page.getByRole('checkbox', { name: 'Only while plugged in' }).check();
  await page.evaluate('plug(false)');
  await untilStatus(page, /^Holding off: this computer runs on battery\./);
  let answered = false;
  const waits = generate(8).finally(() => {
    answered = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(answered).toBe(false);
  await page.evaluate('plug(true)');
  await untilStatus(page, /^Serving\.$/);
  expect(idsOf(await waits)).toEqual(OUTPUT_IDS.slice(0, 8));

  // Denied, as every page is at first in a browser without a user.
  const idle = page.getByRole('checkbox', { name: 'Only while nobody uses this computer' });
  await idle.check();
  await untilStatus(page, /^Holding off: the browser does not say whether this computer is in use\./);
  const devtools = await page.context().newCDPSession(page);
  const { browserContextId } = (await devtools.send('Target.getTargetInfo')).targetInfo;
  const permissions = { origin: relay.webUrl, permissions: ['idleDetection' as const] };
  await devtools.send('Browser.grantPermissions', {
    ...permissions,
    ...(browserContextId ? { browserContextId } : {}),
  });
  await devtools.send('Emulation.setIdleOverride', { isUserActive: true, isScreenUnlocked: true });
  await idle.uncheck();
  await idle.check();
  await untilStatus(page, /^Holding off: this computer is in use/);
  await expectAccessible(page, 'holding off');
  await devtools.send('Emulation.setIdleOverride', { isUserActive: false, isScreenUnlocked: true });
  await untilStatus(page, /^Serving\.$/);
  expect(idsOf(await generate(8))).toEqual(OUTPUT_IDS.slice(0, 8));
  await page.context().close();
});

test('a browser that forbids to keep anything shows the page all the same', async () => {
  const context = await browser.browser.newContext();
  await context.addInitScript(`for (const name of ['localStorage', 'sessionStorage']) {
    Object.defineProperty(window, name, {
      configurable: true,
      get() { throw new DOMException('Access is denied for this document.', 'SecurityError'); },
    });
  }`);
  const page = await context.newPage();
  browser.watch(page);
  await page.goto(`${relay.webUrl}/?tune=off`);
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).waitFor();
  await page.getByRole('button', { name: 'Join', exact: true }).waitFor();
  await context.close();
});

test('nothing was written to the console as an error', () => {
  expect(browser.errors).toEqual([]);
});
