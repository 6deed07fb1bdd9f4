import { setTimeout as pause } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { messageOf } from './errors.ts';
import type { NodeBrowser } from './launch-browser.ts';

/** Between two looks at the page. */
const LOOK_MS = 1_000;
/** A page gets its adapter back within 3 s, or by loading itself anew: after so long it takes a new browser. */
const ADAPTER_AWAY_MS = 10_000;
/** Between two starts, doubled from one to the next; starts that are longer ago count no more. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
const COUNT_WITHIN_MS = 600_000;

// What runs in the page is text: this side knows no DOM.
const SHOWN = '({ ...document.documentElement.dataset })';

export interface KeeperOptions {
  readonly open: () => Promise<NodeBrowser>;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
  /** The browser was ended by its user, or ended by itself. */
  readonly onEnd: () => void;
}

/** A node's browser, which is started again where its page crashes or the browser gives it no adapter any more. */
export class NodeKeeper {
  readonly #options: KeeperOptions;
  readonly #restarts: number[] = [];
  #node: NodeBrowser | undefined;
  #restarting: Promise<void> | undefined;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** Resolves when its page serves; rejects as `open` does. */
  async open(): Promise<void> {
    this.#keep(await this.#options.open());
  }

  async close(): Promise<void> {
    const node = this.#node;
    this.#node = undefined;
    await node?.browser.close();
    await this.#restarting;
  }

  #keep(node: NodeBrowser): void {
    const { browser, page } = node;
    this.#node = node;
    const watching = new AbortController();
    const ended = () => {
      watching.abort();
      if (this.#node !== node) return;
      this.#node = undefined;
      this.#options.onEnd();
    };
    browser.on('disconnected', ended);
    // A window that its user closes ends the browser too.
    page.on('close', () => void browser.close().catch(() => {}));
    page.on('crash', () => this.#restart(node, 'The page crashed'));
    void adapterAway(page, watching.signal).then((away) => {
      if (away) this.#restart(node, 'The browser gives the page no GPU any more');
    });
    // What ended before anybody listened is never told.
    if (!browser.isConnected()) ended();
    else if (page.isClosed()) void browser.close().catch(() => {});
  }

  #restart(node: NodeBrowser, why: string): void {
    if (this.#node !== node || this.#options.signal.aborted) return;
    this.#node = undefined;
    this.#options.log(`${why}: another browser is started.`);
    this.#restarting = this.#openAgain(node);
  }

  /** Tries until a page serves, or the command ends. */
  async #openAgain(old: NodeBrowser): Promise<void> {
    const { open, log, signal } = this.#options;
    await old.browser.close().catch(() => {});
    while (!signal.aborted) {
      try {
        await pause(this.#pauseMs(), undefined, { signal });
        this.#keep(await open());
        log('The page serves again.');
        return;
      } catch (error) {
        if (!signal.aborted) log(`No node yet: ${messageOf(error)}`);
      }
    }
  }

  #pauseMs(): number {
    const now = performance.now();
    const recent = this.#restarts.filter((at) => at > now - COUNT_WITHIN_MS).length;
    this.#restarts.push(now);
    return recent === 0 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (recent - 1));
  }
}

/** Resolves with true once the page's adapter has been away for too long, with false when `signal` aborts. */
async function adapterAway(page: Page, signal: AbortSignal): Promise<boolean> {
  let since: number | undefined;
  while (!signal.aborted) {
    await pause(LOOK_MS, undefined, { signal }).catch(() => {});
    // One that loads itself anew tells nothing: the last word counts.
    const shown = (await page.evaluate(SHOWN).catch(() => undefined)) as Record<string, string> | undefined;
    if (shown?.problem === 'no-adapter') since ??= performance.now();
    else if (shown?.state === 'serving') since = undefined;
    if (since !== undefined && performance.now() - since >= ADAPTER_AWAY_MS) return true;
  }
  return false;
}
