// What a node that the command opens keeps from one start to the next: the model, and nothing that lets anybody in.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findBrowser } from '../src/cli/find-browser.ts';
import { openNode } from '../src/cli/launch-browser.ts';
import { FilesProxy } from './harness/files-proxy.ts';
import { startRelay } from './harness/relay.ts';

const TOKEN = 'a-node-token-that-no-file-may-hold';
const WEIGHTS = 'model.safetensors';

test('a node started again finds its model, and its profile holds no token', { timeout: 120_000 }, async () => {
  const relay = await startRelay(['--node-token', TOKEN]);
  const proxy = await FilesProxy.open(relay.webUrl);
  const cache = mkdtempSync(join(tmpdir(), 'shoal-profile-'));
  const before = process.env.SHOAL_CACHE;
  process.env.SHOAL_CACHE = cache;
  onTestFinished(async () => {
    if (before === undefined) delete process.env.SHOAL_CACHE;
    else process.env.SHOAL_CACHE = before;
    await proxy.close();
    await relay.command.stop();
    rmSync(cache, { recursive: true, force: true, maxRetries: 5 });
  });
  const executablePath = process.env.SHOAL_BROWSER || (await findBrowser())!;
  /** Bytes of weights that a start takes. */
  const start = async (): Promise<number> => {
    const taken = () => proxy.passed.reduce((sum, { name, bytes }) => sum + (name === WEIGHTS ? bytes : 0), 0);
    const from = taken();
    const { browser } = await openNode({ executablePath, headless: true, softwareGpu: true }, new URL(proxy.url), {
      boundMs: 45_000,
      log: () => {},
      signal: new AbortController().signal,
      kernels: { tune: 'off' },
      nodeToken: TOKEN,
    });
    await browser.close();
    return taken() - from;
  };
  const size = await start();
  expect(size).toBeGreaterThan(1_000_000);
  expect(await start()).toBe(0);
  expect(filesWith(cache, TOKEN)).toEqual([]);

  if (process.env.SHOAL_LONG !== '1') return;
  // One that is damaged is made anew.
  const profile = join(cache, 'browsers', '1');
  rmSync(join(profile, 'Default'), { recursive: true });
  mkdirSync(profile, { recursive: true });
  writeFileSync(join(profile, 'Default'), 'no folder');
  expect(await start()).toBe(size);
  expect(await start()).toBe(0);
});

/** Files below `folder` that have `text` in them, as bytes or as UTF-16. */
function filesWith(folder: string, text: string): string[] {
  const forms = [Buffer.from(text), Buffer.from(text, 'utf16le')];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => {
      const bytes = readFileSync(path);
      return forms.some((form) => bytes.includes(form));
    });
}
