import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { pollPage, type TestBrowser, untilState, waitUntilServing } from './browser.ts';
import type { ChaosNode } from './chaos-node.ts';
import { FaultyProxy, type ReportFate } from './faulty-proxy.ts';
import { workerOf } from './worker-of.ts';

const SERVING_MS = 60_000;
/** For the page's own script. */
const LOADED_MS = 10_000;
const RETRY_MS = 300;
/** Between two tokens, at most. */
const BUSY_MS = 150;

/** A tab of a real browser, with a network of its own. */
export class TabNode implements ChaosNode {
  readonly #browser: TestBrowser;
  readonly #webUrl: string;
  #proxy!: FaultyProxy;
  #page!: Page;
  #freezes = 0;

  private constructor(browser: TestBrowser, webUrl: string) {
    this.#browser = browser;
    this.#webUrl = webUrl;
  }

  static async open(browser: TestBrowser, webUrl: string): Promise<TabNode> {
    const node = new TabNode(browser, webUrl);
    await node.#begin();
    return node;
  }

  /** By what it tells: its own counters come once a second. */
  get busy(): boolean {
    return this.#proxy.sinceTold < BUSY_MS;
  }

  async check(): Promise<void> {
    const said = "document.documentElement.dataset.state === 'error' && document.documentElement.dataset.error";
    const error = await this.#page.evaluate<string | false>(said);
    if (error !== false) throw new Error(`a tab serves no more: ${error}`);
  }

  /** Not even its Detach arrives. */
  async kill(): Promise<void> {
    await this.#proxy.close();
    await this.#page.context().close();
    await this.#begin();
  }

  /** By its button, and joins again. */
  async leave(): Promise<void> {
    const page = this.#page;
    await page.getByRole('button', { name: /leave/i }).click();
    await untilState(page, 'left', 10_000);
    await page.getByRole('button', { name: /join/i }).click();
    await untilState(page, 'serving', SERVING_MS);
  }

  /** In turn nothing passes, and its Web Worker stands still. */
  async freeze(ms: number): Promise<void> {
    if (this.#freezes++ % 2 === 0) await this.#proxy.freeze(ms);
    else await this.#standStill(ms);
    await this.#served();
  }

  async cut(ms: number): Promise<void> {
    await this.#proxy.cut(ms);
    await this.#served();
  }

  async slow(ms: number): Promise<void> {
    await this.#proxy.slow(ms, 150);
    await this.#served();
  }

  async muddle(ms: number, fate: () => ReportFate): Promise<void> {
    await this.#proxy.muddle(ms, fate);
    await this.#served();
  }

  async close(): Promise<void> {
    await this.#page.context().close();
    await this.#proxy.close();
  }

  async #begin(): Promise<void> {
    const lateAt = performance.now() + SERVING_MS;
    for (;;) {
      this.#proxy = await FaultyProxy.open(this.#webUrl);
      try {
        this.#page = await this.#browser.open(`${this.#proxy.url}/#join`);
        await pollPage(this.#page, 'document.documentElement.dataset.state !== undefined', LOADED_MS, 50);
        break;
      } catch (error) {
        // The relay went while the page loaded: a user loads it again, too.
        await this.#proxy.close();
        if (performance.now() > lateAt) throw error;
        await sleep(RETRY_MS);
      }
    }
    await waitUntilServing(this.#page, SERVING_MS);
  }

  /** As where the system lets the browser sleep; without work for the processor. */
  async #standStill(ms: number): Promise<void> {
    const worker = await workerOf(this.#page);
    const memory = 'new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer';
    const how = await worker.evaluate<string>(`Atomics.wait(new Int32Array(${memory}), 0, 0, ${ms})`);
    if (how !== 'timed-out') throw new Error(`the Web Worker stood still until "${how}"`);
  }

  async #served(): Promise<void> {
    await untilState(this.#page, 'serving', SERVING_MS);
  }
}
