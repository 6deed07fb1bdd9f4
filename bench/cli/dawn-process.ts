import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { dawnEnvironment } from '../../scripts/dawn-environment.js';
import { findBrowser } from '../../src/cli/find-browser.ts';
import { describeAdapter } from '../core/describe-adapter.ts';
import { openDawn } from './dawn.ts';

/** Set where the environment is what Dawn needs: it has to be there before Node starts. */
const READY = 'SHOAL_BENCH_DAWN';
const PROBE_MS = 30_000;

/** First of a command line that only asks what Dawn finds. */
export const PROBE = '--probe-adapter';

export function isReadyForDawn(): boolean {
  return process.env[READY] !== undefined;
}

/** Says on stdout which adapter Dawn finds in this environment. */
export async function probe(): Promise<number> {
  const adapter = await (await openDawn()).requestAdapter({ powerPreference: 'high-performance' });
  console.log(adapter === null ? 'none' : describeAdapter(adapter).software ? 'software' : 'hardware');
  return 0;
}

/**
 * Starts the program again where Dawn finds an adapter: a GPU of this machine, else the software adapter that a browser
 * brings. Resolves with its exit status.
 */
export async function runWithDawn(program: string, args: readonly string[]): Promise<number> {
  const hasGpu = (await probedAdapter(program)) === 'hardware';
  if (!hasGpu) console.log('No GPU for Dawn here: the software adapter of an installed browser is taken.');
  const env = { ...process.env, ...(hasGpu ? {} : await softwareEnvironment()), [READY]: '1' };
  const child = spawn(process.execPath, [program, ...args], { stdio: 'inherit', env });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (status) => resolve(status ?? 1));
  });
}

/** In a process of its own: a driver that is broken may take its process along. */
async function probedAdapter(program: string): Promise<string> {
  try {
    const env = { ...process.env, [READY]: '1' };
    const { stdout } = await promisify(execFile)(process.execPath, [program, PROBE], { env, timeout: PROBE_MS });
    return stdout.trim();
  } catch {
    return 'none';
  }
}

async function softwareEnvironment(): Promise<Record<string, string>> {
  const browser = await findBrowser();
  if (browser === undefined) throw new Error('no Chrome, Chromium or Edge is installed; `npm test` installs one');
  const dawn = dawnEnvironment(browser);
  if (dawn === undefined) throw new Error('no Vulkan for Dawn beside the installed browser: use --runtime browser');
  return dawn;
}
