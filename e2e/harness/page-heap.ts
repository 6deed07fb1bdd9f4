import type { Page } from 'playwright-core';
import { workerOf } from './worker-of.ts';

/** What a browser must be launched with for `pageHeap`. */
export const HEAP_ARGS = ['--js-flags=--expose-gc', '--enable-blink-features=ForceEagerMeasureMemory'];

export interface PageHeap {
  readonly window: number;
  readonly worker: number;
}

/** Bytes of JavaScript alive in the window and in its Web Worker, after a collection. */
export async function pageHeap(page: Page): Promise<PageHeap> {
  const worker = await workerOf(page);
  // Twice: what a finaliser frees, the second one collects.
  for (let i = 0; i < 2; i++) {
    await worker.evaluate('gc()');
    await page.evaluate('gc()');
  }
  const { breakdown } = (await page.evaluate('performance.measureUserAgentSpecificMemory()')) as {
    breakdown: { bytes: number; attribution: { scope: string; url: string }[] }[];
  };
  const of = (is: (attribution: { scope: string; url: string }) => boolean) => {
    const own = breakdown.filter(({ attribution }) => attribution.some(is));
    return own.reduce((sum, { bytes }) => sum + bytes, 0);
  };
  return { window: of(({ scope }) => scope === 'Window'), worker: of(({ url }) => url === worker.url()) };
}

/** The least of three measurements: what is freed a little later is no leak. */
export async function leastHeap(page: Page): Promise<PageHeap> {
  const heaps: PageHeap[] = [];
  for (let i = 0; i < 3; i++) heaps.push(await pageHeap(page));
  return {
    window: Math.min(...heaps.map(({ window }) => window)),
    worker: Math.min(...heaps.map(({ worker }) => worker)),
  };
}
