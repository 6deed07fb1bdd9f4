import { EventEmitter } from 'node:events';
import type { Browser, Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { candidates } from './find-browser.ts';
import { browserArgs, hasAdapter, hasDisplay, nodeUrl, pollPage } from './launch-browser.ts';
import { NodeKeeper } from './node-keeper.ts';

test('Chrome comes before Chromium before Edge, on every system', () => {
  const order = (paths: string[]) => paths.map((path) => /edge/i.exec(path)?.[0] ?? /chromium/i.exec(path)?.[0] ?? 'c');
  const linux = candidates('linux', { PATH: '/usr/bin' });
  expect(linux[0]).toBe('/usr/bin/google-chrome-stable');
  expect(linux).toContain('/usr/bin/chromium');
  expect(order(linux).indexOf('edge')).toBeGreaterThan(order(linux).indexOf('chromium'));
  expect(candidates('darwin', { HOME: '/Users/a' })).toContain(
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  );
  expect(candidates('win32', { PROGRAMFILES: 'C:\\Program Files' })[0]).toBe(
    'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
  );
});

test('no path, no candidates', () => {
  expect(candidates('linux', {})).toEqual([]);
  expect(candidates('win32', {})).toEqual([]);
});

test('a window is for a display', () => {
  expect(hasDisplay('linux', {})).toBe(false);
  expect(hasDisplay('linux', { DISPLAY: ':0' })).toBe(true);
  expect(hasDisplay('linux', { WAYLAND_DISPLAY: 'wayland-0' })).toBe(true);
  expect(hasDisplay('darwin', {})).toBe(true);
  expect(hasDisplay('darwin', { CI: 'true' })).toBe(false);
});

test('the software adapter is asked for only where it is wanted', () => {
  expect(browserArgs({ softwareGpu: true }, 'linux')).toContain('--use-webgpu-adapter=swiftshader');
  expect(browserArgs({ softwareGpu: false }, 'linux').join(' ')).not.toContain('swiftshader');
  expect(browserArgs({ softwareGpu: false }, 'darwin').join(' ')).not.toMatch(/Vulkan|no-sandbox/);
});

test("a node's address says what was said of its kernels, and nothing else", () => {
  const relay = new URL('https://relay.example:8443');
  expect(nodeUrl(relay).href).toBe('https://relay.example:8443/#join');
  const flags = { tune: 'reset', precision: 'fast', speculation: 'off', kernel: 'plain-8x4-64x1x1-4', headless: true };
  expect(nodeUrl(relay, flags).href).toBe(
    'https://relay.example:8443/?tune=reset&precision=fast&speculation=off&kernel=plain-8x4-64x1x1-4#join',
  );
});

test("a node's address has its token where no server sees it", () => {
  const url = nodeUrl(new URL('https://relay.example:8443'), { tune: 'off' }, 'node-token-0123456789');
  expect(url.href).toBe('https://relay.example:8443/?tune=off#join=node-token-0123456789');
});

test('a page that never answers is not waited for any longer than was asked', async () => {
  const hangs = { evaluate: () => new Promise(() => {}) } as unknown as Page;
  await expect(pollPage(hangs, 'true', 50)).rejects.toThrow('not within 0.05 s: true');
  expect(await hasAdapter(hangs, 50)).toBe(false);
});

test('a browser that ended before it was kept is an end', async () => {
  const onEnd = vi.fn();
  const browser = Object.assign(new EventEmitter(), { isConnected: () => false, close: async () => {} });
  const page = Object.assign(new EventEmitter(), { isClosed: () => true, evaluate: async () => undefined });
  const node = { browser: browser as unknown as Browser, page: page as unknown as Page, softwareGpu: true };
  const signal = new AbortController().signal;
  await new NodeKeeper({ open: async () => node, log: () => {}, signal, onEnd }).open();
  expect(onEnd).toHaveBeenCalledOnce();
});

test('a window that was closed before it was kept ends its browser', async () => {
  const browser = Object.assign(new EventEmitter(), {
    isConnected: () => true,
    close: vi.fn(async () => void browser.emit('disconnected')),
  });
  const page = Object.assign(new EventEmitter(), { isClosed: () => true, evaluate: async () => undefined });
  const node = { browser: browser as unknown as Browser, page: page as unknown as Page, softwareGpu: true };
  const onEnd = vi.fn();
  const signal = new AbortController().signal;
  await new NodeKeeper({ open: async () => node, log: () => {}, signal, onEnd }).open();
  expect(browser.close).toHaveBeenCalledOnce();
  expect(onEnd).toHaveBeenCalledOnce();
});
