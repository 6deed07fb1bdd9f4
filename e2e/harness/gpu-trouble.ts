import type { Browser, Page } from 'playwright-core';
import type { TestBrowser } from './browser.ts';
import { pageState } from './browser.ts';
import { until } from './wait.ts';
import { workerOf } from './worker-of.ts';

/** Chromium's flags with which a browser of the `shoal` command outlives any number of crashes. */
export const CRASH_FLAGS = ['--disable-gpu-process-crash-limit', '--disable-domain-blocking-for-3d-apis'];

export type Trouble = 'destroy' | 'crash';

const WATCH = `(() => {
  self.devices = [];
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...args) {
    const device = await requestDevice.apply(this, args);
    self.devices.push(device);
    return device;
  };
})()`;

/** From now on the devices of this page's node are known. To be called before it joins. */
export async function watchDevices(page: Page): Promise<void> {
  await (await workerOf(page)).evaluate(WATCH);
}

/** Devices that the node has asked for since `watchDevices`. */
export async function devicesOf(page: Page): Promise<number> {
  return (await workerOf(page)).evaluate('self.devices.length');
}

/** Takes the GPU away from the page's node. */
export async function makeTrouble(trouble: Trouble, browser: TestBrowser, page: Page): Promise<void> {
  if (trouble === 'destroy') {
    await (await workerOf(page)).evaluate('self.devices.at(-1).destroy()');
    return;
  }
  await crashGpu(browser.browser);
}

export async function crashGpu(browser: Browser): Promise<void> {
  const session = await browser.newBrowserCDPSession();
  // It may answer, or not.
  void session.send('Browser.crashGpuProcess').catch(() => {});
}

/** Milliseconds until the page has stopped serving, or loading, and serves again; it may have loaded itself anew. */
export async function servesAgain(page: Page, boundMs: number, loads: boolean): Promise<number> {
  const start = performance.now();
  let stopped = loads;
  await until('the page serves again', boundMs, async () => {
    // A page that is loaded anew answers nothing for a while.
    const state = await pageState(page).catch(() => 'away');
    stopped ||= state !== 'serving';
    return stopped && state === 'serving';
  });
  return performance.now() - start;
}
