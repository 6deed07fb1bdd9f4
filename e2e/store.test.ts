// A page's store in a real browser: what is cut goes on, what rots is found, what is shared comes once.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectAccessible } from './harness/accessible.ts';
import { TestBrowser, untilState } from './harness/browser.ts';
import { FileServer } from './harness/file-server.ts';
import { FilesProxy } from './harness/files-proxy.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { writePaddedModel } from './harness/padded-model.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const LONG = process.env.SHOAL_LONG === '1';
const WEIGHTS = 'model.safetensors';
const PIECE = 1 << 20;
/** What a page keeps at once: a reload may cost so much. */
const CHUNK = 256 * 1024;

let scratch: string;
let folder: string;
let size: number;
let relay: TestRelay;
let proxy: FilesProxy;
let site: FileServer;
let browser: TestBrowser;
let page: Page;

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-store-'));
  folder = join(scratch, 'padded');
  size = writePaddedModel(folder, 8 * PIECE).size;
  site = await FileServer.open(folder);
  relay = await startRelay(['--model', folder]);
  proxy = await FilesProxy.open(relay.webUrl);
  browser = await TestBrowser.launch();
});

afterAll(async () => {
  await browser?.close();
  await proxy?.close();
  await relay?.command.stop();
  await site?.close();
  rmSync(scratch, { recursive: true });
});

/** Flips a bit of each file of the store that is long enough: a page's script, which this project's types don't know. */
const flip = `async function flip(at) {
  const models = await (await navigator.storage.getDirectory()).getDirectoryHandle('models');
  for await (const [name, file] of models.entries()) {
    if (!name.endsWith('.data') || (await file.getFile()).size < at) continue;
    const byte = new Uint8Array(await (await file.getFile()).slice(at, at + 1).arrayBuffer());
    const writable = await file.createWritable({ keepExistingData: true });
    await writable.write({ type: 'write', position: at, data: byte.map((one) => one ^ 4) });
    await writable.close();
  }
}`;

/** Bytes of the largest file that are kept, by its map. */
const keptScript = `(async () => {
  const models = await (await navigator.storage.getDirectory()).getDirectoryHandle('models');
  let most = 0;
  for await (const [name, file] of models.entries()) {
    if (!name.endsWith('.map')) continue;
    const bytes = await (await file.getFile()).arrayBuffer();
    if (bytes.byteLength < 8) continue;
    const whole = new Uint8Array(bytes, 8).filter((state) => state === 1).length;
    most = Math.max(most, whole * ${PIECE} + new DataView(bytes).getUint32(4, true));
  }
  return most;
})()`;
const kept = async () => (await page.evaluate(keptScript)) as number;

const weights = () => proxy.passed.filter(({ name }) => name === WEIGHTS);
const log = () => page.locator('body').innerText();

async function leave(): Promise<void> {
  await page.getByRole('button', { name: 'Leave' }).click();
  await untilState(page, 'left', 10_000);
}

async function join_(): Promise<void> {
  await page.getByRole('button', { name: 'Join' }).click();
  await untilState(page, 'serving', 45_000);
}

test('cut at ten points, and reloaded: no byte comes twice but the last chunk', async () => {
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 1_000));
  const parts = Array.from({ length: 10 }, (_, i) => (size * 0.08 * (0.5 + ((seed * 7 + i * 31) % 100) / 100)) | 0);
  proxy.allow(parts[0]!);
  page = await browser.open(`${proxy.url}/#join`);
  for (const [i, part] of parts.entries()) {
    if (i > 0) proxy.allow(part);
    await until(`part ${i} of ${parts}`, 15_000, () => proxy.holds);
    const passed = weights().at(-1)!;
    const arrived = passed.from + passed.bytes;
    await until(`part ${i} is kept`, 15_000, async () => (await kept()) > arrived - CHUNK);
    if (i % 2 === 0) proxy.cut();
    proxy.allow(0);
    await page.reload();
    // What the page before had asked for takes nothing of what passes next.
    proxy.cut();
  }
  const before = proxy.passed.length;
  proxy.allow(Number.POSITIVE_INFINITY);
  await untilState(page, 'serving', 45_000);
  expect(proxy.passed.length).toBeGreaterThan(before);
  let end = 0;
  for (const { from, bytes } of weights()) {
    expect(from, `${parts}: ${JSON.stringify(weights())}`).toBeGreaterThanOrEqual(end - CHUNK);
    expect(from).toBeLessThanOrEqual(end);
    end = from + bytes;
  }
  expect(end).toBe(size);
  const answer = await collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, { maxNewTokens: 12 }));
  expect(idsOf(answer)).toEqual(OUTPUT_IDS.slice(0, 12));
});

test('what is in use can’t be deleted; a flipped byte is found, and its piece alone comes again', async () => {
  const listed = page.locator('[data-models] [data-model]');
  await page.getByText('In use', { exact: true }).waitFor({ timeout: 5_000 });
  expect(await listed.getByRole('button').count()).toBe(0);
  await leave();
  const at = 8 * PIECE + 500_000;
  await page.evaluate(`(${flip})(${at})`);
  const before = proxy.passed.length;
  await join_();
  expect(proxy.passed.slice(before)).toEqual([{ name: WEIGHTS, from: 8 * PIECE, bytes: size - 8 * PIECE }]);
  expect(await log()).toContain(`bytes ${8 * PIECE} to ${size} of ${WEIGHTS} have changed on this disk`);
});

test('a model is deleted, with a question before, and comes once for two tabs', async () => {
  await leave();
  const listed = page.locator('[data-models] [data-model]');
  await page.getByText('none: its 9.4 MB are in this browser').waitFor({ timeout: 5_000 });
  await listed.scrollIntoViewIfNeeded();
  await expectAccessible(page, 'a kept model');
  await listed.getByRole('button', { name: /^Delete/ }).click();
  await expectAccessible(page, 'a question before a model is deleted');
  await listed.getByRole('button', { name: /^Delete 9\.4 MB/ }).click();
  await page.getByText('None yet.').waitFor({ timeout: 5_000 });
  await page.getByText('9.4 MB, once').waitFor({ timeout: 5_000 });
  const before = proxy.bytes;
  proxy.allow(3 * PIECE);
  const second = await page.context().newPage();
  await second.goto(`${proxy.url}/?tune=off`);
  await page.getByRole('button', { name: 'Join' }).click();
  await until('the first tab downloads', 10_000, () => proxy.holds);
  await second.getByRole('button', { name: 'Join' }).click();
  await second.getByText('Another tab of this browser downloads').waitFor({ timeout: 10_000 });
  proxy.allow(Number.POSITIVE_INFINITY);
  await Promise.all([untilState(page, 'serving', 45_000), untilState(second, 'serving', 45_000)]);
  const others = ['config.json', 'generation_config.json', 'tokenizer.json'];
  const all = others.reduce((sum, name) => sum + statSync(join(folder, name)).size, size);
  expect(proxy.bytes - before).toBeGreaterThanOrEqual(all);
  expect(proxy.bytes - before).toBeLessThan(all + PIECE / 2);
  await page.context().close();
});

test.runIf(LONG)('without room the model is loaded all the same, and the sizes are told', async () => {
  const before = proxy.bytes;
  page = await browser.open(proxy.url);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: proxy.url, quotaSize: 5_000_000 });
  await page.reload();
  await join_();
  // Browsers don't tell pages how much room there really is.
  expect(await log()).toMatch(
    /no more room for this site: [34]\.\d MB of padded's 9\.4 MB are kept, the rest comes again/,
  );
  expect(proxy.bytes - before).toBeLessThan(1.3 * size);
  await page.context().close();
});

const ways: [string, Partial<FileServer>, RegExp | undefined][] = [
  ['with CORS', {}, undefined],
  ['without CORS', { cors: false }, /lets no page of another site read it \(CORS\); the relay is asked instead/],
  ['with a login', { status: 401 }, /it asks for a login \(status 401\); the relay is asked instead/],
  ['without the file', { status: 404 }, /there is no such file \(status 404\); the relay is asked instead/],
];

test.each(LONG ? ways : ways.slice(0, 1))('from a URL %s', async (_, how, notice) => {
  Object.assign(site, { cors: true, status: undefined, given: 0 }, how);
  const other = await startRelay(['--model', folder, '--model-url', site.url]);
  const counted = await FilesProxy.open(other.webUrl);
  try {
    page = await browser.open(`${counted.url}/`);
    await page.getByText(`from ${new URL(site.url).host}, or else from the relay`).waitFor({ timeout: 5_000 });
    await join_();
    if (notice) expect(await log()).toMatch(notice);
    expect([site.given > size, counted.bytes > size]).toEqual([notice === undefined, notice !== undefined]);
    await page.context().close();
  } finally {
    await counted.close();
    await other.command.stop();
  }
});
