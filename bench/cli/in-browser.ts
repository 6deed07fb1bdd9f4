import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import sirv from 'sirv';
import { hasDisplay, launchOptions, mayHaveGpu } from '../../src/cli/launch-browser.ts';
import { serveModelFile } from '../../src/relay/model-files.ts';
import type { ServedModel } from '../../src/relay/served-model.ts';
import type { BenchReport } from '../core/report.ts';
import type { AnyRequest } from '../core/setting.ts';

/** A browser on the built bench page; `served` is at /model, as a relay has it. */
export class BrowserRuntime {
  readonly #browser: Browser;
  readonly #server: Server;
  readonly #url: string;

  private constructor(browser: Browser, server: Server) {
    this.#browser = browser;
    this.#server = server;
    this.#url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  static async start(
    executablePath: string,
    pageFolder: string,
    root: string,
    served?: ServedModel,
  ): Promise<BrowserRuntime> {
    const page = sirv(pageFolder, { dev: true });
    const models = sirv(root, { dev: true });
    const server = createServer((request, response) => {
      // Cross-origin isolated, as the relay's page is: timers are fine then.
      response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
      response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp');
      if (served && serveModelFile(served, request, response)) return;
      const serve = request.url?.startsWith('/models/') ? models : page;
      serve(request, response, () => {
        response.writeHead(404).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { chromium } = await import('playwright-core');
    const softwareGpu = !mayHaveGpu();
    const choice = { executablePath, headless: softwareGpu || !hasDisplay(), softwareGpu };
    return new BrowserRuntime(await chromium.launch(launchOptions(choice)), server);
  }

  /** Runs in a page of its own, which goes afterwards with all it holds. */
  async run(request: AnyRequest, log: (text: string) => void): Promise<BenchReport> {
    const page = await this.#browser.newPage();
    try {
      await page.exposeFunction('benchLog', log);
      await page.goto(this.#url);
      const crash = new Promise<never>((_, reject) => {
        page.on('crash', () => reject(new Error('the page crashed')));
      });
      crash.catch(() => {});
      const report = page.evaluate(`window.bench(${JSON.stringify(request)})`) as Promise<BenchReport>;
      return await Promise.race([report, crash]);
    } finally {
      await page.close().catch(() => {});
    }
  }

  async close(): Promise<void> {
    await this.#browser.close();
    this.#server.close();
  }
}
