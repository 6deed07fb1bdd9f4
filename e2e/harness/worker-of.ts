import type { Page, Worker } from 'playwright-core';
import { until } from './wait.ts';

/** The Web Worker of the page's node; those of grammars come and go. */
export function workerOf(page: Page): Promise<Worker> {
  return until("the page's Web Worker", 10_000, () => page.workers().find((one) => !one.url().includes('grammar')));
}
