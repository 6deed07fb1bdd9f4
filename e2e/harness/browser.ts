import { type Browser, type BrowserServer, chromium, type Page } from 'playwright-core';
import { findBrowser } from '../../src/cli/find-browser.ts';
import { launchOptions, pollPage, waitUntilServing } from '../../src/cli/launch-browser.ts';
import { userEnvironment } from './processes.ts';

const SERVING_BOUND_MS = 45_000;

/** A headless browser with the software adapter, in which pages serve. */
export class TestBrowser {
  readonly browser: Browser;
  readonly #server: BrowserServer;
  /** Errors that pages have written to their consoles. */
  readonly errors: string[] = [];

  private constructor(browser: Browser, server: BrowserServer) {
    this.browser = browser;
    this.#server = server;
  }

  static async launch(
    options: {
      readonly args?: readonly string[];
      readonly ignoreDefaultArgs?: string[];
      readonly softwareGpu?: boolean;
    } = {},
  ): Promise<TestBrowser> {
    const executablePath = process.env.SHOAL_BROWSER || (await findBrowser());
    if (!executablePath) throw new Error('no browser: the tests are started with `npm test`, which brings one');
    const own = launchOptions({ executablePath, headless: true, softwareGpu: options.softwareGpu ?? true });
    const server = await chromium.launchServer({
      ...own,
      // Playwright would listen on every interface.
      host: '127.0.0.1',
      args: [...own.args!, ...(options.args ?? [])],
      env: userEnvironment() as Record<string, string>,
      ...(options.ignoreDefaultArgs ? { ignoreDefaultArgs: options.ignoreDefaultArgs } : {}),
    });
    return new TestBrowser(await chromium.connect(server.wsEndpoint()), server);
  }

  /**
   * Opens the relay's page; it is a user of its own, with its own storage. No test depends on what a tuner chooses: those
   * about it say so in the address.
   */
  async open(url: string): Promise<Page> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    this.watch(page);
    const address = new URL(url);
    if (!address.searchParams.has('tune')) address.searchParams.set('tune', 'off');
    await page.goto(address.href, { timeout: 20_000 });
    return page;
  }

  /** Keeps what the page writes as errors. */
  watch(page: Page): void {
    page.on('console', (message) => {
      if (message.type() === 'error') this.errors.push(message.text());
    });
    page.on('pageerror', (error) => this.errors.push(error.message));
  }

  /** Opens the page and waits until it serves. */
  async serve(webUrl: string): Promise<Page> {
    const page = await this.open(`${webUrl}/#join`);
    await waitUntilServing(page, SERVING_BOUND_MS);
    return page;
  }

  async close(): Promise<void> {
    await this.#server.close();
  }

  /** As the system's out-of-memory killer would. */
  async kill(): Promise<void> {
    await this.#server.kill();
  }
}

export { pollPage, waitUntilServing };

/** What the page shows of its state. */
export function pageState(page: Page): Promise<string> {
  return page.evaluate("document.documentElement.dataset.state ?? 'none'");
}

/** Waits until the page shows the state. */
export async function untilState(page: Page, state: string, boundMs: number): Promise<void> {
  await pollPage(page, `document.documentElement.dataset.state === ${JSON.stringify(state)}`, boundMs, 50);
}
