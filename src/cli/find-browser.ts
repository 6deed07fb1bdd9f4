import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { CliError } from './errors.ts';
import { type InstallerOptions, runInstaller } from './installer.ts';

const LINUX_NAMES = [
  'google-chrome-stable',
  'google-chrome',
  'chromium',
  'chromium-browser',
  'microsoft-edge-stable',
  'microsoft-edge',
];
const MAC_APPS = [
  'Google Chrome.app/Contents/MacOS/Google Chrome',
  'Chromium.app/Contents/MacOS/Chromium',
  'Microsoft Edge.app/Contents/MacOS/Microsoft Edge',
];
const WINDOWS_APPS = [
  'Google\\Chrome\\Application\\chrome.exe',
  'Chromium\\Application\\chrome.exe',
  'Microsoft\\Edge\\Application\\msedge.exe',
];
const PROBE_BOUND_MS = 15_000;
const PLAYWRIGHT_BOUNDS: InstallerOptions = { boundMs: 100_000, silenceMs: 25_000 };
const APT_BOUNDS: InstallerOptions = { boundMs: 170_000 };

function executable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Where installed browsers may be, best first. */
export function candidates(
  platform: NodeJS.Platform = process.platform,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string[] {
  if (platform === 'darwin') {
    const folders = ['/Applications', join(env.HOME ?? '', 'Applications')];
    return folders.flatMap((folder) => MAC_APPS.map((app) => join(folder, app)));
  }
  if (platform === 'win32') {
    const folders = [env.PROGRAMFILES, env['PROGRAMFILES(X86)'], env.LOCALAPPDATA];
    return folders
      .filter((folder) => folder !== undefined)
      .flatMap((folder) => WINDOWS_APPS.map((app) => `${folder}\\${app}`));
  }
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return LINUX_NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
}

/**
 * Whether the program is there and starts: one of Playwright's may lack system libraries, and a distribution's
 * may be a stub. Asked on Linux only: elsewhere Chrome brings its libraries, and on Windows asking opens a window.
 */
async function works(path: string, signal: AbortSignal | undefined): Promise<boolean> {
  if (!executable(path)) return false;
  if (process.platform !== 'linux') return true;
  return (await runInstaller(path, ['--version'], { boundMs: PROBE_BOUND_MS, signal })).code === 0;
}

/** Where Playwright's own would be. */
async function playwrightsBrowser(): Promise<string | undefined> {
  // Half a second to load, so only when it is needed.
  const { chromium } = await import('playwright-core');
  try {
    return chromium.executablePath();
  } catch {
    // It has no build for this system.
    return undefined;
  }
}

/** The browser that is here already: SHOAL_BROWSER, an installed Chrome, Chromium or Edge, or Playwright's. */
export async function findBrowser(signal?: AbortSignal): Promise<string | undefined> {
  const named = process.env.SHOAL_BROWSER;
  if (named !== undefined && named !== '') {
    if (!(await works(named, signal))) throw new CliError(`SHOAL_BROWSER names ${named}, which does not start.`);
    return named;
  }
  for (const path of candidates()) {
    if (await works(path, signal)) return path;
  }
  const own = await playwrightsBrowser();
  return own !== undefined && (await works(own, signal)) ? own : undefined;
}

async function installWithPlaywright(signal: AbortSignal | undefined): Promise<void> {
  const cli = join(dirname(createRequire(import.meta.url).resolve('playwright-core/package.json')), 'cli.js');
  await runInstaller(process.execPath, [cli, 'install', 'chromium', '--no-shell'], { ...PLAYWRIGHT_BOUNDS, signal });
}

async function installWithApt(signal: AbortSignal | undefined): Promise<void> {
  if (process.platform !== 'linux' || !executable('/usr/bin/apt-get')) return;
  const prefix = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  for (const args of [
    ['update', '-q'],
    ['install', '-y', '-q', '--no-install-recommends', 'chromium'],
  ]) {
    const [command, ...rest] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', ...args];
    await runInstaller(command!, rest, { ...APT_BOUNDS, signal });
  }
}

/** Finds a browser, or installs one: Playwright's, else Debian's package. */
export async function findOrInstallBrowser(log: (line: string) => void, signal?: AbortSignal): Promise<string> {
  const found = await findBrowser(signal);
  if (found !== undefined) return found;
  log('No Chrome, Chromium or Edge is installed here: installing Chromium, a minute or two …');
  for (const attempt of [installWithPlaywright, installWithApt]) {
    await attempt(signal);
    const installed = await findBrowser(signal);
    if (installed !== undefined) return installed;
  }
  throw new CliError(
    'shoal needs Chrome, Chromium or Edge and could not install one: install one of them, or set SHOAL_BROWSER to its program.',
  );
}
