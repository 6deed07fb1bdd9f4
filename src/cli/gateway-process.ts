import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { CliError } from './errors.ts';
import { ensureGatewayVenv, ensureTiktokenFolder, type Generation } from './gateway-venv.ts';
import { accepts, freePort, poll } from './net.ts';
import { formatHost, type HostPort } from './values.ts';

export interface GatewayOptions {
  readonly generation: Generation;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** The relay's gRPC address. */
  readonly relay: HostPort;
  /** Folder of the tokenizer; generation 1 cannot ask the relay for it. */
  readonly tokenizerDir: string;
  /** More flags for the gateway. */
  readonly extraArgs: readonly string[];
  readonly log: (line: string) => void;
  /** How long to wait until it serves. */
  readonly boundMs: number;
  /** Gives up, and ends what has been started. */
  readonly signal?: AbortSignal | undefined;
}

export interface Gateway {
  readonly url: string;
  readonly metricsUrl: string;
  readonly process: ChildProcess;
  /** Resolves when the process has ended, by itself or not. */
  readonly exited: Promise<void>;
  close(): Promise<void>;
}

/** Generation 2 waits 5 s for balancers in front of it to notice; whoever pressed Ctrl-C does not. */
const STOP_BOUND_MS = 2_000;

/** The gateway's program and arguments. */
export function gatewayCommand(
  options: Pick<GatewayOptions, 'generation' | 'host' | 'relay' | 'tokenizerDir' | 'extraArgs'>,
  port: number,
  metricsPort: number,
): string[] {
  const worker = `grpc://${formatHost(options.relay.host)}:${options.relay.port}`;
  const common = [
    ...['--worker-urls', worker],
    ...['--host', options.host, '--port', String(port)],
    // Both generations would open 0.0.0.0:29000 otherwise.
    ...['--prometheus-host', '127.0.0.1', '--prometheus-port', String(metricsPort)],
    ...options.extraArgs,
  ];
  return options.generation === 2
    ? ['-m', 'smg', 'launch', ...common]
    : ['-m', 'sglang_router.launch_router', '--model-path', options.tokenizerDir, ...common];
}

/** Starts a gateway in front of the relay and waits until it serves the model. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { generation, host, relay, log, signal } = options;
  const python = await ensureGatewayVenv(generation, log, signal);
  const env: NodeJS.ProcessEnv = { ...process.env };
  if (generation === 1) env.TIKTOKEN_ENCODINGS_BASE = ensureTiktokenFolder();

  const relayName = `${formatHost(relay.host)}:${relay.port}`;
  if (!(await accepts(relay))) {
    throw new CliError(`there is no relay at ${relayName}: start one with "shoal start".`);
  }
  const port = options.port === 0 ? await freePort() : options.port;
  const local = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  if (await accepts({ host: local, port })) {
    throw new CliError(`port ${port} of ${host} is in use: choose another with --port.`);
  }
  const metricsPort = await freePort();
  signal?.throwIfAborted();
  const child = spawn(python, gatewayCommand(options, port, metricsPort), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
  });
  let last = '';
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      if (line.trim() !== '') last = line;
      log(line);
    });
  }
  // Whatever ends this process, a second Ctrl-C too, ends the gateway with it.
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  let ended: string | undefined;
  const exited = new Promise<void>((resolve) => {
    child.on('error', (error) => {
      ended = error.message;
      resolve();
    });
    child.on('exit', (code, signal) => {
      ended = `it ended with ${signal ?? `code ${code}`}; its last line: ${last}`;
      resolve();
    });
  });
  const close = async () => {
    if (ended !== undefined) return;
    child.kill('SIGTERM');
    const timer = setTimeout(kill, STOP_BOUND_MS);
    await exited;
    clearTimeout(timer);
  };
  void exited.then(() => process.off('exit', kill));
  const stop = () => void close();
  signal?.addEventListener('abort', stop, { once: true });

  const url = `http://${formatHost(local)}:${port}`;
  const ready = await poll(
    async () => {
      if (ended !== undefined) throw new CliError(`the gateway did not start: ${ended}`);
      return (await servesModel(url)) || undefined;
    },
    { boundMs: options.boundMs, everyMs: 200 },
  ).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  signal?.removeEventListener('abort', stop);
  if (!ready) {
    await close();
    throw new CliError(`the gateway did not serve the relay's model within ${options.boundMs / 1000} s.`);
  }
  return { url, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`, process: child, exited, close };
}

/** Whether the gateway answers and has taken the relay in as a worker. */
async function servesModel(url: string): Promise<boolean> {
  const get = async (path: string) => {
    try {
      return await fetch(`${url}${path}`, { signal: AbortSignal.timeout(2_000) });
    } catch {
      return undefined;
    }
  };
  if (!(await get('/health'))?.ok) return false;
  const response = await get('/workers');
  if (!response?.ok) return false;
  const { workers } = (await response.json()) as { workers?: unknown[] };
  return (workers?.length ?? 0) > 0;
}
