// What a person sees: the page before, while and after it serves, and without WebGPU.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';
import { pageState, pollPage, TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const pictures = join(packageRoot, 'test-results');
let relay: TestRelay;
let browser: TestBrowser;

beforeAll(async () => {
  mkdirSync(pictures, { recursive: true });
  relay = await startRelay();
  browser = await TestBrowser.launch();
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

test('joins by a button, tells model, adapter and state, and counts tokens', async () => {
  const page = await browser.open(relay.webUrl);
  expect(await pageState(page)).toBe('idle');
  await page.screenshot({ path: join(pictures, 'page-idle.png') });
  await page.getByRole('button', { name: /join/i }).click();
  await untilState(page, 'serving', 45_000);

  const text = page.locator('body');
  expect(await text.innerText()).toMatch(/stories260K/);
  expect(await text.innerText()).toMatch(/swiftshader/i);
  const client = schedulerClient(relay.grpc);
  expect((await client.startProfile({})).success).toBe(true);
  expect(await client.stopProfile({})).toMatchObject({ success: true, message: 'Rank 0: no step ran.' });
  expect((await client.startProfile({ numSteps: 2 })).success).toBe(true);
  await collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens: 300, ignoreEos: true, n: 2 }));
  const profile = await client.stopProfile({});
  expect(profile).toMatchObject({ success: true });
  expect(profile.message).toMatch(
    /^Rank 0, 2 steps, .* ms in kernels, each alone and repeated \(.*\):\n {2}\S.* repeats\n/,
  );
  expect(profile.message).toMatch(/ linear .* GB\/s, .* GFLOP\/s/);
  await pollPage(page, '/All steps: 2 of them/.test(document.querySelector("caption")?.textContent)', 5_000);
  await pollPage(page, '/[1-9][0-9.]* *tokens?\\/s/i.test(document.body.innerText)', 10_000);
  await page.screenshot({ path: join(pictures, 'page-serving.png') });

  // SharedArrayBuffer and fine timers: the relay's headers isolate the page.
  expect(await page.evaluate('crossOriginIsolated')).toBe(true);
  await page.getByRole('button', { name: /leave/i }).click();
  await untilState(page, 'left', 5_000);
  await page.screenshot({ path: join(pictures, 'page-left.png') });
  await page.context().close();
});

test('lends as much as its user says, on later visits too, which take what the first found of the kernels', async () => {
  const client = schedulerClient(relay.grpc);
  const page = await browser.open(`${relay.webUrl}/?tune=auto`);
  const kernels = page.locator('[data-kernels]');
  const memory = page.getByRole('spinbutton', { name: /memory/i });
  const sequences = page.getByRole('spinbutton', { name: /sequences/i });
  await memory.fill('1');
  await sequences.fill('4');
  const serves = async () => {
    await page.getByRole('button', { name: /join/i }).click();
    await untilState(page, 'serving', 30_000);
    const [load, ...others] = (await client.getLoads({})).loads;
    expect(others).toEqual([]);
    return load!;
  };
  const load = await serves();
  expect(load.maxRunningRequests).toBe(4);
  expect(await kernels.innerText()).toMatch(/^tested at this start: [1-9]\d* variants passed, 0 failed$/);
  // 5 layers of K and V, 4 heads of 8 float32 each: as many blocks of 16 tokens as fit.
  const tokenBytes = 5 * 2 * 4 * 8 * 4;
  expect(load.maxTotalNumTokens).toBe(Math.floor(2 ** 20 / tokenBytes / 16) * 16);
  const answer = await collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens: 12 }));
  expect(idsOf(answer)).toEqual(OUTPUT_IDS.slice(0, 12));

  await page.getByRole('button', { name: /leave/i }).click();
  await untilState(page, 'left', 5_000);
  await page.reload();
  expect(await memory.inputValue()).toBe('1');
  expect(await sequences.inputValue()).toBe('4');
  const { maxRunningRequests, maxTotalNumTokens } = await serves();
  expect(await kernels.innerText()).toMatch(/^tested at an earlier start: /);
  expect({ maxRunningRequests, maxTotalNumTokens }).toEqual({
    maxRunningRequests: load.maxRunningRequests,
    maxTotalNumTokens: load.maxTotalNumTokens,
  });

  // What the fields do not take is not lent.
  await page.getByRole('button', { name: /leave/i }).click();
  await untilState(page, 'left', 5_000);
  await sequences.fill('0');
  await sequences.blur();
  expect((await serves()).maxRunningRequests).toBe(4);
  await page.context().close();
});

test('says so where WebGPU is missing', async () => {
  const context = await browser.browser.newContext();
  await context.addInitScript('delete Navigator.prototype.gpu');
  const page = await context.newPage();
  await page.goto(`${relay.webUrl}/#join`);
  await untilState(page, 'error', 5_000);
  const error = (await page.evaluate('document.documentElement.dataset.error')) as string;
  expect(error).toMatch(/WebGPU/);
  // What the launcher is told, a person can read too.
  expect(await page.locator('body').innerText()).toContain(error);
  await page.screenshot({ path: join(pictures, 'page-no-webgpu.png') });
  await context.close();
});

test('fits a narrow screen', async () => {
  const context = await browser.browser.newContext({ viewport: { width: 320, height: 640 } });
  const page = await context.newPage();
  await page.goto(relay.webUrl);
  await page.getByRole('button', { name: /join/i }).waitFor({ timeout: 5_000 });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320);
  await context.close();
});

test('nothing was written to the console as an error', () => {
  expect(browser.errors).toEqual([]);
});

test('says what helps where WebGPU offers no adapter', async () => {
  // One browser at a time.
  await browser.close();
  // Nothing to draw with: neither the GPU nor what stands in for it.
  const bare = await TestBrowser.launch({
    softwareGpu: false,
    args: ['--disable-gpu', '--disable-software-rasterizer'],
  });
  try {
    const page = await bare.open(`${relay.webUrl}/#join`);
    await untilState(page, 'error', 20_000);
    const said = await page.locator('body').innerText();
    expect(said).toMatch(/no adapter here\. See chrome:\/\/gpu for why/);
    expect(await page.evaluate('document.documentElement.dataset.error')).toMatch(/chrome:\/\/gpu/);
    await page.screenshot({ path: join(pictures, 'page-no-adapter.png') });
  } finally {
    await bare.close();
  }
});
