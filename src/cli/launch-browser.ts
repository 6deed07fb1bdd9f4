import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser, BrowserContext, BrowserContextOptions, BrowserType, LaunchOptions, Page } from 'playwright-core';
import type { NodeState } from '../contract/node-state.ts';
import { cacheDir } from '../relay/model/cache-dir.ts';
import { BrowserProfile } from './browser-profile.ts';
import { CliError, messageOf } from './errors.ts';

export interface BrowserChoice {
  readonly executablePath: string;
  readonly headless: boolean;
  /** SwiftShader, the software adapter that every Chromium carries. */
  readonly softwareGpu: boolean;
  /** A key whose certificate is taken whatever it says: see keyPin. */
  readonly ownKey?: string | undefined;
}

const LAUNCH_BOUND_MS = 30_000;
const GOTO_BOUND_MS = 20_000;
const STATE_BOUND_MS = 5_000;
/** A driver that hangs gives no adapter. */
const ADAPTER_BOUND_MS = 20_000;

/** Whether a window could be shown to somebody. */
export function hasDisplay(
  platform: NodeJS.Platform = process.platform,
  env: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  if (platform !== 'linux') return env.SSH_CONNECTION === undefined && env.CI === undefined;
  return Boolean(env.DISPLAY) || Boolean(env.WAYLAND_DISPLAY);
}

/** Whether a GPU may be there; a wrong yes costs one relaunch (see `hasAdapter`). */
export function mayHaveGpu(platform: NodeJS.Platform = process.platform): boolean {
  if (platform !== 'linux') return true;
  const names = (folder: string) => {
    try {
      return readdirSync(folder);
    } catch {
      return [];
    }
  };
  return (
    names('/dev/dri').some((name) => name.startsWith('renderD')) ||
    names('/dev').some((name) => /^nvidia\d+$|^dxg$/.test(name))
  );
}

/** Chromium's flags for a node. */
export function browserArgs(
  { softwareGpu }: Pick<BrowserChoice, 'softwareGpu'>,
  platform: NodeJS.Platform = process.platform,
): string[] {
  const args = [
    // WebGPU where it is not on by default (Linux), and software adapters.
    '--enable-unsafe-webgpu',
    '--disable-background-networking',
    '--disable-component-update',
    // A page whose GPU process crashed may ask for a device again.
    '--disable-gpu-process-crash-limit',
    '--disable-domain-blocking-for-3d-apis',
    // A node works on while its window is hidden behind another.
    '--disable-backgrounding-occluded-windows',
    '--disable-renderer-backgrounding',
    '--disable-background-timer-throttling',
  ];
  if (platform === 'linux') args.push('--enable-features=Vulkan');
  if (softwareGpu) args.push('--use-webgpu-adapter=swiftshader');
  // Chromium's sandbox refuses to run as root; nobody else loses it.
  if (platform === 'linux' && process.getuid?.() === 0) args.push('--no-sandbox');
  return args;
}

export function launchOptions(choice: BrowserChoice): LaunchOptions {
  return {
    executablePath: choice.executablePath,
    headless: choice.headless,
    args: [
      ...browserArgs(choice),
      ...(choice.ownKey ? [`--ignore-certificate-errors-spki-list=${choice.ownKey}`] : []),
    ],
    // The command decides when the browser ends.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    timeout: LAUNCH_BOUND_MS,
  };
}

// What runs in the page is text: this side knows no DOM.
const HAS_ADAPTER = 'navigator.gpu ? navigator.gpu.requestAdapter().then((a) => a !== null, () => false) : false';
const PAGE_STATE = "document.documentElement.dataset.state ?? 'none'";
const SETTLED = `(() => {
  const { state, error } = document.documentElement.dataset;
  return state === 'serving' || state === 'error' ? { state, error: error ?? '' } : null;
})()`;

export interface NodeBrowser {
  readonly browser: Browser;
  readonly page: Page;
  readonly softwareGpu: boolean;
}

export interface OpenOptions {
  readonly boundMs: number;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
  readonly kernels?: KernelUrlFlags;
  /** Where the relay asks for one. */
  readonly nodeToken?: string | undefined;
}

/**
 * Opens the relay's page in a browser of its own and waits until it serves. Falls back to the software adapter
 * where the chosen one has none. The signal ends the browser, and the waiting.
 */
export async function openNode(choice: BrowserChoice, webUrl: URL, options: OpenOptions): Promise<NodeBrowser> {
  const { boundMs, log, signal } = options;
  const { browser, context } = await launch(choice, signal);
  const stop = () => void browser.close().catch(() => {});
  signal.addEventListener('abort', stop, { once: true });
  try {
    signal.throwIfAborted();
    const page = context.pages()[0] ?? (await context.newPage());
    logPage(page, log);
    if (!choice.softwareGpu) {
      await gotoPage(page, new URL('/healthz', webUrl));
      if (!(await hasAdapter(page))) {
        await browser.close();
        log('No GPU that WebGPU can use: the software adapter it is.');
        return await openNode({ ...choice, softwareGpu: true }, webUrl, options);
      }
    }
    await gotoPage(page, nodeUrl(webUrl, options.kernels, options.nodeToken));
    await waitUntilServing(page, boundMs);
    return { browser, page, softwareGpu: choice.softwareGpu };
  } catch (error) {
    await browser.close().catch(() => {});
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Whether WebGPU finds one; one that isn't found within `boundMs` is none. */
export function hasAdapter(page: Page, boundMs = ADAPTER_BOUND_MS): Promise<boolean> {
  return Promise.race([page.evaluate<boolean>(HAS_ADAPTER), pause(boundMs, false, { ref: false })]);
}

export const TUNE_MODES = ['auto', 'off', 'reset'] as const;
export const PRECISIONS = ['exact', 'fast'] as const;
export const SPECULATION_MODES = ['auto', 'off'] as const;

/** What a node's address may say of its kernels: see src/page/kernel-flags.ts. */
export interface KernelUrlFlags {
  readonly tune?: string;
  readonly precision?: string;
  readonly speculation?: string;
  readonly kernel?: string;
}

/** The address of a page that joins at once. */
export function nodeUrl(webUrl: URL, kernels: KernelUrlFlags = {}, token?: string): URL {
  const url = new URL(token === undefined ? '/#join' : `/#join=${token}`, webUrl);
  for (const name of ['tune', 'precision', 'speculation', 'kernel'] as const) {
    const value = kernels[name];
    if (value !== undefined) url.searchParams.set(name, value);
  }
  return url;
}

interface Launched {
  readonly browser: Browser;
  readonly context: BrowserContext;
}

async function launch(choice: BrowserChoice, signal: AbortSignal): Promise<Launched> {
  // Half a second to load: only the commands that open a browser pay for it.
  const { chromium } = await import('playwright-core');
  signal.throwIfAborted();
  // A launch cannot be called off; Playwright ends its browser with this process.
  const stopped = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  const viewport = choice.headless ? { width: 1280, height: 800 } : null;
  try {
    return await Promise.race([launchAny(chromium, launchOptions(choice), { viewport }), stopped]);
  } catch (error) {
    signal.throwIfAborted();
    throw new CliError(`the browser ${choice.executablePath} did not start: ${firstLine(messageOf(error))}`);
  }
}

/** With a past, where there is a place for one that the browser takes; else without. */
async function launchAny(
  chromium: BrowserType,
  options: LaunchOptions,
  view: Pick<BrowserContextOptions, 'viewport'>,
): Promise<Launched> {
  const profile = BrowserProfile.take(join(cacheDir(), 'browsers'));
  // What is damaged so that a browser does not start with it is as good as nothing.
  for (let turn = 0; profile && turn < 2; turn++) {
    try {
      if (turn > 0) profile.reset();
      const context = await chromium.launchPersistentContext(profile.folder, { ...options, ...view });
      const browser = context.browser()!;
      browser.once('disconnected', () => profile.release());
      return { browser, context };
    } catch {
      // A browser that starts in no way tells why below.
    }
  }
  profile?.release();
  const browser = await chromium.launch(options);
  return { browser, context: await browser.newContext(view) };
}

/** Warnings and errors of the page as log lines. */
export function logPage(page: Page, log: (line: string) => void): void {
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') log(`page: ${firstLine(message.text())}`);
  });
  page.on('pageerror', (error) => log(`page: ${firstLine(messageOf(error))}`));
  page.on('crash', () => log('page: the page crashed.'));
}

async function gotoPage(page: Page, url: URL): Promise<void> {
  try {
    await page.goto(url.href, { waitUntil: 'load', timeout: GOTO_BOUND_MS });
  } catch (error) {
    // The fragment may be a token.
    const why = firstLine(messageOf(error)).replaceAll(url.hash, '');
    throw new CliError(`the page at ${url.origin}/ could not be opened: ${why}`);
  }
}

/**
 * What `expression` comes to in the page, once that is truthy. Rejects after `boundMs`. Playwright's waitForFunction would
 * have the page evaluate the text again and again, which its content security policy forbids.
 */
export async function pollPage<T>(page: Page, expression: string, boundMs: number, pollMs = 100): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  // A page that hangs never answers.
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${boundMs / 1000} s: ${expression}`)), boundMs).unref();
  });
  try {
    for (;;) {
      const asked = page.evaluate<T | undefined>(expression).catch((error: unknown) => {
        // The page went elsewhere meanwhile, or loads again.
        if (!/context was destroyed|navigat/i.test(messageOf(error))) throw error;
        return undefined;
      });
      const value = await Promise.race([asked, late]);
      if (value) return value;
      await Promise.race([pause(pollMs), late]);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves once the page serves; rejects with what the page says, or when `boundMs` are over. */
export async function waitUntilServing(page: Page, boundMs: number): Promise<void> {
  const gone = new Promise<never>((_, reject) => {
    page.once('crash', () => reject(new CliError('the page crashed before it could serve.')));
    page.once('close', () => reject(new CliError('the page was closed before it could serve.')));
  });
  gone.catch(() => {});
  const settled = () => pollPage<{ state: NodeState; error: string }>(page, SETTLED, boundMs);
  let outcome: { state: NodeState; error: string };
  try {
    outcome = await Promise.race([gone, settled()]);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const state = await Promise.race([
      page.evaluate(PAGE_STATE).catch(() => 'unknown'),
      // It may hang.
      pause(STATE_BOUND_MS, 'unknown', { ref: false }),
    ]);
    throw new CliError(`the page does not serve after ${Math.round(boundMs / 1000)} s; its state is "${state}".`);
  }
  if (outcome.state === 'error') throw new CliError(`the page cannot serve: ${outcome.error || 'it gives no reason'}`);
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0]!.trim();
}
