import type { Page } from 'playwright-core';
import { until } from './wait.ts';

/** What a page counts of itself. */
export interface PageCounters {
  readonly running: number;
  readonly waiting: number;
  readonly usedTokens: number;
  readonly cachedTokens: number;
  readonly gpuBytes: number;
  readonly gpuBuffers: number;
}

export function pageCounters(page: Page): Promise<PageCounters | undefined> {
  return page.evaluate('window.shoal.counters()');
}

/** The counters of the page at rest, younger than this call: they are told once a second. */
export function restingCounters(page: Page, boundMs = 10_000): Promise<PageCounters> {
  const asked = performance.now();
  return until('the page at rest', boundMs, async () => {
    const now = await pageCounters(page);
    return performance.now() - asked > 1_500 && now?.running === 0 && now.waiting === 0 ? now : undefined;
  });
}
