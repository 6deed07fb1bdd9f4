import type { Page } from 'playwright-core';

/** What a browser must be launched with for `pageHeap`. */
export const HEAP_ARGS = ['--js-flags=--expose-gc', '--enable-blink-features=ForceEagerMeasureMemory'];

export interface PageHeap {
  readonly window: number;
  readonly worker: number;
}

/** Bytes of JavaScript alive in the window and in its Web Worker, after a collection. */
export async function pageHeap(page: Page): Promise<PageHeap> {
  const [worker] = page.workers();
  // Twice: what a finaliser frees, the second one collects.
  for (let i = 0; i < 2; i++) {
    await worker!.evaluate('gc()');
    await page.evaluate('gc()');
  }
  const { breakdown } = (await page.evaluate('performance.measureUserAgentSpecificMemory()')) as {
    breakdown: { bytes: number; attribution: { scope: string }[] }[];
  };
  const of = (scope: string) => {
    const own = breakdown.filter(({ attribution }) => attribution.some((each) => each.scope === scope));
    return own.reduce((sum, { bytes }) => sum + bytes, 0);
  };
  return { window: of('Window'), worker: of('DedicatedWorkerGlobalScope') };
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
