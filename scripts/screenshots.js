// `npm run screenshots`: the README's pictures (docs/images), of a real relay whose three nodes are pages of a real browser.
import { spawn } from 'node:child_process';
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { ensureBuilt, root } from './build.js';

const BOUND_MS = 60_000;
const NODES = 3;
const PROMPTS = ['Once upon a time', 'Lily had a small dog', 'The sun was warm and', 'Tom and his mom went to'];
const images = join(root, 'docs', 'images');

await ensureBuilt({ log: console.log });
process.env.SHOAL_BUILT = '1';
const { findOrInstallBrowser } = await import(new URL('../dist/node/tools.js', import.meta.url).href);
const executablePath = await findOrInstallBrowser(console.log);
const browser = await chromium.launch({
  executablePath,
  args: [
    '--enable-unsafe-webgpu',
    '--use-webgpu-adapter=swiftshader',
    ...(process.platform === 'linux' ? ['--enable-features=Vulkan'] : []),
    ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
  ],
});
// Only now: where the browser doesn't start, nobody would stop it.
const relay = command('relay', '--port', '0', '--web-port', '0');
try {
  const webUrl = await relay.line(/^page +(https?:\/\/\S+?)\/?$/);
  const grpc = await relay.line(/^worker +grpc:\/\/(\S+)$/);
  await takePictures(webUrl, grpc);
} finally {
  await browser.close();
  relay.stop();
}

/**
 * @param {string} webUrl
 * @param {string} grpc
 */
async function takePictures(webUrl, grpc) {
  mkdirSync(images, { recursive: true });
  const pages = [];
  for (let node = 0; node < NODES; node++) {
    const context = await browser.newContext({ viewport: { width: 1200, height: 820 }, colorScheme: 'light' });
    const page = await context.newPage();
    await page.goto(`${webUrl}/#join`);
    pages.push(page);
  }
  for (const page of pages) await until(page, "document.documentElement.dataset.state === 'serving'");
  const [page] = pages;
  if (!page) throw new Error('no page');
  // Some minutes of a fleet's life in seconds: charts have a point for each few of them.
  const requests = { stop: false };
  const load = Promise.all([0, 1, 2].map((client) => generateUntil(requests, grpc, client)));
  // It is awaited when the pictures are taken.
  load.catch(() => {});
  await page.locator('.views a[href="#fleet"]').click();
  await sleep(25_000);
  await picture(page, 'fleet.png');
  await page.locator('.views a[href="#node"]').click();
  await until(page, "/[1-9]/.test(document.querySelector('[data-counter=speed]')?.textContent ?? '')");
  await picture(page, 'node.png');
  requests.stop = true;
  await load;
  await page.locator('.views a[href="#playground"]').click();
  await playground(page);
  await picture(page, 'playground.png');
}

/** @param {import('playwright-core').Page} page */
async function playground(page) {
  await page.getByRole('radio', { name: 'Prompt' }).check({ timeout: BOUND_MS });
  await page.getByRole('textbox', { name: 'Prompt' }).fill(PROMPTS[0] ?? '');
  await page.getByLabel('Tokens at most', { exact: true }).fill('80');
  await page.getByRole('button', { name: 'Tokens', exact: true }).click();
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('.answer').last().getByRole('status').getByText('Done').waitFor({ timeout: BOUND_MS });
}

/**
 * @param {import('playwright-core').Page} page
 * @param {string} name
 */
async function picture(page, name) {
  await page.mouse.move(0, 0);
  const path = join(images, name);
  await page.screenshot({ path });
  console.log(`${path} ${(statSync(path).size / 1000).toFixed(0)} kB`);
}

/**
 * @param {import('playwright-core').Page} page
 * @param {string} expression
 */
async function until(page, expression) {
  // A page that hangs never answers.
  const asked = () => Promise.race([page.evaluate(expression), sleep(BOUND_MS, false, { ref: false })]);
  for (const end = Date.now() + BOUND_MS; !(await asked()); await sleep(100)) {
    if (Date.now() > end) throw new Error(`not within ${BOUND_MS / 1000} s: ${expression}`);
  }
}

/**
 * @param {{stop: boolean}} requests
 * @param {string} grpc
 * @param {number} client
 */
async function generateUntil(requests, grpc, client) {
  for (let turn = client; !requests.stop; turn++) {
    const prompt = PROMPTS[turn % PROMPTS.length] ?? '';
    const args = ['--prompt', prompt, '--max-new-tokens', String(60 + 40 * (turn % 4)), '--n', String(1 + (turn % 3))];
    const generate = command('generate', '--relay', grpc, ...args);
    const ended = generate.ended.then(() => true);
    if (await Promise.race([ended, sleep(BOUND_MS, false, { ref: false })])) continue;
    generate.stop();
    throw new Error(`generate did not end within ${BOUND_MS / 1000} s`);
  }
}

/**
 * A `shoal` command that runs.
 * @param {string[]} args
 */
function command(...args) {
  const child = spawn(process.execPath, [join(root, 'bin', 'shoal.js'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  /** @type {string[]} */
  const lines = [];
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  const ended = new Promise((resolve) => child.on('close', resolve));
  return {
    ended,
    stop: () => child.kill(),
    /** @param {RegExp} pattern */
    async line(pattern) {
      for (const end = Date.now() + BOUND_MS; ; await sleep(50)) {
        for (const line of lines) {
          const found = pattern.exec(line)?.[1];
          if (found !== undefined) return found;
        }
        if (Date.now() > end || child.exitCode !== null) throw new Error(`no ${pattern}:\n${lines.join('\n')}`);
      }
    },
  };
}
