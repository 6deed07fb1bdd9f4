import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CliError } from './errors.ts';
import { findOrInstallBrowser } from './find-browser.ts';
import { startGateway } from './gateway-process.ts';
import type { Generation } from './gateway-venv.ts';
import { type BrowserChoice, hasDisplay, mayHaveGpu, type NodeBrowser, openNode } from './launch-browser.ts';
import { accepts } from './net.ts';
import { bundledModel } from './paths.ts';
import { type RelayFlags, runRelay } from './run-relay.ts';
import { asCliError, connectScheduler } from './scheduler-client.ts';
import { Shutdown } from './shutdown.ts';
import type { HostPort } from './values.ts';

export interface BrowserFlags {
  readonly headless?: boolean;
  readonly softwareGpu?: boolean;
}

/** Until a page serves: its model may have to come over a network. */
const SERVING_BOUND_MS = 120_000;

const out = (line: string) => process.stdout.write(`${line}\n`);
const log = (line: string) => process.stderr.write(`${line}\n`);

/** relay: serves until it is told to stop. */
export async function relayCommand(flags: RelayFlags): Promise<number> {
  const shutdown = new Shutdown();
  const relay = await runRelay(flags);
  shutdown.add('The relay', relay.close);
  out(`page   ${relay.webUrl}/`);
  out(`worker ${relay.grpcUrl}`);
  out('ready');
  return shutdown.wait();
}

/** start: the relay, and a browser that serves its model. */
export async function startCommand(flags: RelayFlags & BrowserFlags): Promise<number> {
  const shutdown = new Shutdown();
  const relay = await runRelay(flags);
  shutdown.add('The relay', relay.close);
  try {
    await openBrowserNode(flags, new URL(relay.webUrl), shutdown, () => {
      log(`The browser has ended; the relay goes on: open ${relay.webUrl}/ in a browser to serve again.`);
    });
  } catch (error) {
    if (shutdown.begun) return shutdown.wait();
    shutdown.begin(1);
    await shutdown.wait();
    throw error;
  }
  out(`page       ${relay.webUrl}/`);
  out(`metrics    ${relay.webUrl}/metrics`);
  out(`worker     ${relay.grpcUrl}`);
  out('ready');
  return shutdown.wait();
}

/** node: a browser that serves for a relay. */
export async function nodeCommand(flags: BrowserFlags & { relay: URL }): Promise<number> {
  const { relay } = flags;
  const port = Number(relay.port || (relay.protocol === 'https:' ? 443 : 80));
  if (!(await accepts({ host: relay.hostname.replace(/^\[|\]$/g, ''), port }))) {
    throw new CliError(`there is no relay at ${relay.origin}: start one with "shoal relay".`);
  }
  const shutdown = new Shutdown();
  try {
    await openBrowserNode(flags, relay, shutdown, () => {
      if (!shutdown.begun) log('The browser has ended.');
      shutdown.begin(1);
    });
  } catch (error) {
    if (shutdown.begun) return shutdown.wait();
    throw error;
  }
  out(`serving ${relay.origin}/`);
  out('ready');
  return shutdown.wait();
}

async function openBrowserNode(
  flags: BrowserFlags,
  webUrl: URL,
  shutdown: Shutdown,
  onEnd: () => void,
): Promise<NodeBrowser> {
  const choice: BrowserChoice = {
    executablePath: await findOrInstallBrowser(log),
    headless: flags.headless ?? !hasDisplay(),
    softwareGpu: flags.softwareGpu ?? !mayHaveGpu(),
  };
  const opened = await openNode(choice, webUrl, { boundMs: SERVING_BOUND_MS, log });
  shutdown.add('The browser', () => opened.browser.close());
  opened.browser.on('disconnected', () => {
    if (!shutdown.begun) onEnd();
  });
  // A window that its user closes ends the browser too.
  opened.page.on('close', () => void opened.browser.close());
  return opened;
}

/** gateway: an SGLang gateway in front of the relay. */
export async function gatewayCommandRun(
  flags: { generation: Generation; host: string; port: number; relay: HostPort },
  extraArgs: readonly string[],
): Promise<number> {
  const shutdown = new Shutdown();
  const gateway = await startGateway({
    ...flags,
    extraArgs,
    tokenizerDir: flags.generation === 1 ? await tokenizerDir(flags.relay) : bundledModel,
    log,
    boundMs: 60_000,
  });
  shutdown.add('The gateway', gateway.close);
  void gateway.exited.then(() => {
    if (!shutdown.begun) log('The gateway has ended.');
    shutdown.begin(1);
  });
  out(`gateway ${gateway.url}`);
  out(`metrics ${gateway.metricsUrl}`);
  out('ready');
  return shutdown.wait();
}

/** The tokenizer's folder as the relay names it; generation 1 reads it from this disk. */
async function tokenizerDir(relay: HostPort): Promise<string> {
  const client = await connectScheduler(relay);
  const info = await client.getModelInfo({}, { timeoutMs: 10_000 }).catch((error: unknown) => {
    throw asCliError(error, relay);
  });
  const folder = info.tokenizerPath || info.modelPath;
  await readFile(join(folder, 'tokenizer.json')).catch(() => {
    throw new CliError(`generation 1 needs the relay's tokenizer on this disk, and ${folder} has none.`);
  });
  return folder;
}
