import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readTokenFile } from '../relay/auth/token-file.ts';
import type { RoleToken } from '../relay/auth/token-set.ts';
import { CliError, messageOf } from './errors.ts';
import { findOrInstallBrowser } from './find-browser.ts';
import { startGateway } from './gateway-process.ts';
import type { Generation } from './gateway-venv.ts';
import { keyPin } from './key-pin.ts';
import { type BrowserChoice, hasDisplay, type KernelUrlFlags, mayHaveGpu, openNode } from './launch-browser.ts';
import { accepts } from './net.ts';
import { NodeKeeper } from './node-keeper.ts';
import { bundledModel } from './paths.ts';
import { type RelayFlags, type RunningRelay, runRelay } from './run-relay.ts';
import { asCliError, connectScheduler } from './scheduler-client.ts';
import { Shutdown } from './shutdown.ts';
import type { HostPort } from './values.ts';

export interface BrowserFlags extends KernelUrlFlags {
  readonly headless?: boolean;
  readonly softwareGpu?: boolean;
}

/** Until a page serves: its model may have to come over a network. */
const SERVING_BOUND_MS = 120_000;

const out = (line: string) => process.stdout.write(`${line}\n`);
const log = (line: string) => process.stderr.write(`${line}\n`);

/** relay: serves until it is told to stop. */
export function relayCommand(flags: RelayFlags): Promise<number> {
  const shutdown = new Shutdown();
  return shutdown.run(async () => {
    const relay = await openRelay(flags, shutdown);
    out(`page   ${relay.webUrl}/`);
    out(`worker ${relay.grpcUrl}`);
    out('ready');
  });
}

/** start: the relay, and a browser that serves its model. */
export function startCommand(flags: RelayFlags & BrowserFlags): Promise<number> {
  const shutdown = new Shutdown();
  return shutdown.run(async () => {
    const nodeToken = ownNodeToken(flags);
    const relay = await openRelay(flags, shutdown);
    const ownKey = flags.tlsCert === undefined ? undefined : keyPin(flags.tlsCert);
    await openBrowserNode({ ...flags, nodeToken, ownKey }, new URL(relay.webUrl), shutdown, () => {
      log(`The browser has ended; the relay goes on: open ${relay.webUrl}/ in a browser to serve again.`);
    });
    // Before the browser: what runs there may end by itself. Closing twice is closing once.
    shutdown.add('The relay', relay.close);
    out(`page       ${relay.webUrl}/`);
    out(`metrics    ${relay.webUrl}/metrics`);
    out(`worker     ${relay.grpcUrl}`);
    out('ready');
  });
}

/** node: a browser that serves for a relay. */
export async function nodeCommand(flags: BrowserFlags & NodeAccess & { relay: URL }): Promise<number> {
  const { relay } = flags;
  const port = Number(relay.port || (relay.protocol === 'https:' ? 443 : 80));
  if (!(await accepts({ host: relay.hostname.replace(/^\[|\]$/g, ''), port }))) {
    throw new CliError(`there is no relay at ${relay.origin}: start one with "shoal relay".`);
  }
  const shutdown = new Shutdown();
  return shutdown.run(async () => {
    await openBrowserNode(flags, relay, shutdown, () => {
      log('The browser has ended.');
      shutdown.begin(1);
    });
    out(`serving ${relay.origin}/`);
    out('ready');
  });
}

async function openRelay(flags: RelayFlags, shutdown: Shutdown): Promise<RunningRelay> {
  const relay = await runRelay(flags, log, shutdown.signal);
  shutdown.add('The relay', relay.close);
  shutdown.allow(flags.closeWait);
  // With nothing to read again, a terminal that is closed ends what was started in it.
  if (flags.tokenFile !== undefined || flags.tlsCert !== undefined) shutdown.onHangup(relay.reload);
  shutdown.signal.throwIfAborted();
  return relay;
}

/** What lets a node in. */
interface NodeAccess {
  readonly nodeToken?: string | undefined;
  /** Of the relay's certificate, where it is this process's own. */
  readonly ownKey?: string | undefined;
}

/** With which token the relay's own browser serves; undefined where none is asked for. */
function ownNodeToken({ nodeToken, clientToken, operatorToken, tokenFile }: RelayFlags): string | undefined {
  const inFile = tokenFile === undefined ? [] : readTokens(tokenFile);
  const own = nodeToken[0] ?? inFile.find(({ role }) => role === 'node')?.token;
  if (own === undefined && clientToken.length + operatorToken.length + inFile.length > 0) {
    throw new CliError('the browser of "shoal start" needs a --node-token too; "shoal relay" starts no browser.', 2);
  }
  return own;
}

function readTokens(path: string): RoleToken[] {
  try {
    return readTokenFile(path);
  } catch (error) {
    throw new CliError(`the --token-file can't be used: ${messageOf(error)}`, 2);
  }
}

async function openBrowserNode(
  flags: BrowserFlags & NodeAccess,
  webUrl: URL,
  shutdown: Shutdown,
  onEnd: () => void,
): Promise<void> {
  const { signal } = shutdown;
  const choice: BrowserChoice = {
    executablePath: await findOrInstallBrowser(log, signal),
    headless: flags.headless ?? !hasDisplay(),
    softwareGpu: flags.softwareGpu ?? !mayHaveGpu(),
    ownKey: flags.ownKey,
  };
  const { nodeToken } = flags;
  const keeper = new NodeKeeper({
    open: () => openNode(choice, webUrl, { boundMs: SERVING_BOUND_MS, log, signal, kernels: flags, nodeToken }),
    log,
    signal,
    onEnd: () => {
      if (!shutdown.begun) onEnd();
    },
  });
  await keeper.open();
  shutdown.add('The browser', () => keeper.close());
  signal.throwIfAborted();
}

/** gateway: an SGLang gateway in front of the relay. */
export function gatewayCommandRun(
  flags: { generation: Generation; host: string; port: number; relay: HostPort },
  extraArgs: readonly string[],
): Promise<number> {
  const shutdown = new Shutdown();
  const { signal } = shutdown;
  return shutdown.run(async () => {
    const gateway = await startGateway({
      ...flags,
      extraArgs,
      tokenizerDir: flags.generation === 1 ? await tokenizerDir(flags.relay, signal) : bundledModel,
      log,
      boundMs: 60_000,
      signal,
    });
    shutdown.add('The gateway', gateway.close);
    void gateway.exited.then(() => {
      if (!shutdown.begun) log('The gateway has ended.');
      shutdown.begin(1);
    });
    signal.throwIfAborted();
    out(`gateway ${gateway.url}`);
    out(`metrics ${gateway.metricsUrl}`);
    out('ready');
  });
}

/** The tokenizer's folder as the relay names it; generation 1 reads it from this disk. */
async function tokenizerDir(relay: HostPort, signal: AbortSignal): Promise<string> {
  const client = await connectScheduler(relay);
  const info = await client.getModelInfo({}, { timeoutMs: 10_000, signal }).catch((error: unknown) => {
    throw asCliError(error, relay);
  });
  const folder = info.tokenizerPath || info.modelPath;
  await readFile(join(folder, 'tokenizer.json')).catch(() => {
    throw new CliError(`generation 1 needs the relay's tokenizer on this disk, and ${folder} has none.`);
  });
  return folder;
}
