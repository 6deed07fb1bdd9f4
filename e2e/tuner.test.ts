import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pollPage, TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const BOUND_MS = 45_000;
let relay: TestRelay;
let browser: TestBrowser;

/** The page shows how far a self-test is, from now on. */
const WATCH = `(() => {
  window.testing = [];
  new MutationObserver(() => {
    const shown = document.querySelector('[data-testing]')?.textContent;
    if (shown && shown !== window.testing.at(-1)) window.testing.push(shown);
  }).observe(document, { subtree: true, childList: true, characterData: true });
})()`;

/** Waits until the page serves as the reference does; what it showed of a self-test, and what it says of it now. */
async function served(page: Page): Promise<{ progress: string[]; from: string; text: string }> {
  await untilState(page, 'serving', BOUND_MS);
  const answer = await collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, { maxNewTokens: 12 }));
  expect(idsOf(answer)).toEqual(OUTPUT_IDS.slice(0, 12));
  const kernels = page.locator('[data-kernels]');
  return {
    progress: await page.evaluate('window.testing.splice(0)'),
    from: (await kernels.getAttribute('data-kernels'))!,
    text: await kernels.innerText(),
  };
}

/** A page of a new user, at its first start. */
async function firstStart(): Promise<Page> {
  const context = await browser.browser.newContext();
  await context.addInitScript(WATCH);
  const page = await context.newPage();
  await page.goto(`${relay.webUrl}/#join`);
  return page;
}

describe.runIf(process.env.SHOAL_LONG === '1')('in the long tier', () => {
  beforeAll(async () => {
    relay = await startRelay();
    browser = await TestBrowser.launch();
  });

  afterAll(async () => {
    await browser?.close();
    await relay?.command.stop();
  });

  test('the first start tests kernels and says how far it is; the next takes what was kept', async () => {
    const page = await firstStart();
    const first = await served(page);
    expect(first.from).toBe('tested');
    expect(first.text).toMatch(/: [1-9]\d* variants passed, 0 failed$/);
    expect(first.progress.length).toBeGreaterThan(1);
    expect(first.progress.every((shown) => /Testing kernels: \d+ of \d+$/.test(shown))).toBe(true);

    await page.reload();
    const second = await served(page);
    expect(second).toMatchObject({ from: 'kept', progress: [] });
    expect(second.text.replace('an earlier', 'this')).toBe(first.text);
    await page.context().close();
  });

  test('a reset tests again, by the button and by the address; off tests nothing', async () => {
    const page = await firstStart();
    const first = await served(page);
    await page.getByRole('button', { name: 'Test kernels again' }).click();
    await pollPage(page, 'window.testing.length > 0', BOUND_MS, 20);
    const again = await served(page);
    expect(again).toMatchObject({ from: 'tested', text: first.text });

    // By its address; a reload after it takes what was kept.
    await page.goto(`${relay.webUrl}/?tune=reset#join`);
    expect(await served(page)).toMatchObject({ from: 'tested', text: first.text });
    await page.reload();
    expect(await served(page)).toMatchObject({ from: 'kept', progress: [] });

    await page.goto(`${relay.webUrl}/?tune=off#join`);
    expect(await served(page)).toMatchObject({ from: 'off', progress: [], text: 'not tested' });
    await page.context().close();
  });

  test('a record that is damaged, or of an older build, is replaced', async () => {
    const page = await firstStart();
    await served(page);
    const damage = (change: string) =>
      page.evaluate(`new Promise((resolve, reject) => {
      const request = indexedDB.open('shoal');
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const store = request.result.transaction('tuner', 'readwrite').objectStore('tuner');
        store.openCursor().onsuccess = ({ target: { result: cursor } }) => {
          cursor.update((${change})(cursor.value)).onsuccess = () => { request.result.close(); resolve(); };
        };
      };
    })`);
    for (const change of ['(text) => text.slice(5)', "(text) => text.replaceAll('version', 'varsion')"]) {
      await damage(change);
      await page.reload();
      expect((await served(page)).from).toBe('tested');
    }
    await page.reload();
    expect((await served(page)).from).toBe('kept');
    await page.context().close();
  });

  test('two tabs of one user at their first start: one tests, the other takes what it found', async () => {
    const context = await browser.browser.newContext();
    await context.addInitScript(WATCH);
    const pages = [await context.newPage(), await context.newPage()];
    await Promise.all(pages.map((page) => page.goto(`${relay.webUrl}/#join`)));
    const found: string[] = [];
    for (const page of pages) found.push((await served(page)).from);
    expect(found.sort()).toEqual(['kept', 'tested']);
    await context.close();
  });

  test('a kernel can be forced by its name', async () => {
    const page = await firstStart();
    await page.goto(`${relay.webUrl}/?kernel=plain-8x2-16x1x1-4#join`);
    const { from, text } = await served(page);
    expect(from).toBe('tested');
    expect(text).toMatch(/: [1-9]\d* variants passed, 0 failed$/);
    await page.context().close();
  });

  test('what an address can not say of kernels is an error that names it', async () => {
    const page = await browser.open(relay.webUrl);
    for (const [search, message] of [
      ['?kernel=fastest', /no variant of a product is named "fastest"/],
      ['?kernel=f16-2x1-16x1x8-1', /kernel f16-2x1-16x1x8-1 is of precision fast/],
      ['?kernel=matrix&precision=fast', /nothing of this model can be of matrix on this GPU/],
      ['?tune=never', /tune is "never" in the address, not auto or off or reset/],
      ['?precision=f16', /precision is "f16" in the address, not exact or fast/],
    ] as const) {
      await page.goto(`${relay.webUrl}/${search}#join`);
      await untilState(page, 'error', BOUND_MS);
      expect(await page.evaluate('document.documentElement.dataset.error')).toMatch(message);
    }
    await page.context().close();
  });

  test('nothing was written to the console as an error', () => {
    expect(browser.errors).toEqual([]);
  });
});
