import { pino } from 'pino';
import type { SchedulePolicyName } from '../relay/options.ts';
import { CliError } from './errors.ts';
import { pageDir, readBuildInfo } from './paths.ts';
import { type TrustFlags, trustOptions } from './trust-flags.ts';
import { formatHost } from './values.ts';

/** The flags of `relay` and `start`, as commander gives them. */
export interface RelayFlags extends TrustFlags {
  readonly model: string;
  readonly quant?: 'q8' | 'q4';
  readonly modelUrl: readonly string[];
  readonly modelCdn: readonly string[];
  readonly port: number;
  readonly webPort: number;
  readonly lease: number;
  readonly heartbeat: number;
  readonly startWait: number;
  readonly rejoinWait: number;
  readonly drainWait: number;
  readonly updateWait: number;
  readonly tokenStall: number;
  readonly queueWait: number;
  readonly firstTokenWait: number;
  readonly requestLimit: number;
  readonly closeWait: number;
  readonly maxQueued: number;
  readonly ranks?: number;
  readonly schedulePolicy: SchedulePolicyName;
  readonly auditShare: number;
  readonly lora: readonly string[];
  readonly maxLoras: number;
  readonly maxLoraRank: number;
}

export interface RunningRelay {
  readonly webUrl: string;
  readonly grpcUrl: string;
  /** Reads token file and certificate again. */
  reload(): void;
  close(): Promise<void>;
}

/**
 * Starts the relay in this process; errors are sentences. `log` takes what it says before it is up; `signal` gives up
 * then.
 */
export async function runRelay(
  flags: RelayFlags,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<RunningRelay> {
  if (Number(process.versions.node.split('.')[0]) < 22) {
    throw new CliError(`the relay needs Node 22 or newer; this is ${process.versions.node}.`);
  }
  if (flags.heartbeat * 3 > flags.lease) {
    throw new CliError('the --lease must be at least three times the --heartbeat.', 2);
  }
  const { startRelay } = await import('../relay/relay.ts');
  try {
    const relay = await startRelay({
      model: flags.model,
      ...(flags.quant === undefined ? {} : { quantisation: flags.quant }),
      modelUrls: flags.modelUrl,
      modelCdns: flags.modelCdn,
      ...trustOptions(flags),
      onProgress: log,
      signal,
      grpcPort: flags.port,
      webPort: flags.webPort,
      pageDir,
      build: readBuildInfo(),
      leaseMs: flags.lease,
      heartbeatMs: flags.heartbeat,
      startWaitMs: flags.startWait,
      rejoinWaitMs: flags.rejoinWait,
      drainMs: flags.drainWait,
      updateDrainMs: flags.updateWait,
      tokenStallMs: flags.tokenStall,
      queueMs: flags.queueWait,
      firstTokenMs: flags.firstTokenWait,
      requestMs: flags.requestLimit,
      closeGraceMs: flags.closeWait,
      maxQueued: flags.maxQueued,
      ...(flags.ranks === undefined ? {} : { ranks: flags.ranks }),
      schedulePolicy: flags.schedulePolicy,
      auditShare: flags.auditShare,
      loras: flags.lora.map(loraOf),
      maxLoras: Math.max(flags.maxLoras, flags.lora.length),
      maxLoraRank: flags.maxLoraRank,
      // The standard output is the command's own.
      logger: pino({ level: process.env.SHOAL_LOG ?? 'warn' }, pino.destination({ dest: 2, sync: true })),
    });
    return {
      webUrl: `${flags.tlsCert === undefined ? 'http' : 'https'}://${formatHost(localName(flags.webHost))}:${relay.webPort}`,
      grpcUrl: `grpc://${formatHost(localName(flags.grpcListen))}:${relay.grpcPort}`,
      reload: () => relay.reload(),
      close: () => relay.close(),
    };
  } catch (error) {
    throw relayError(error, flags.lora);
  }
}

/** NAME=FOLDER of --lora. */
function loraOf(text: string): { readonly name: string; readonly path: string } {
  const at = text.indexOf('=');
  if (at < 1 || at === text.length - 1) throw new CliError(`--lora takes NAME=FOLDER, got ${JSON.stringify(text)}.`, 2);
  return { name: text.slice(0, at), path: text.slice(at + 1) };
}

/** An address that listens everywhere is reached here at loopback. */
function localName(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

const LISTEN_FAILURES: Readonly<Record<string, string>> = {
  EACCES: 'the system does not allow that port',
  EADDRNOTAVAIL: "that is no address of this machine's",
  ENOTFOUND: 'no such host is known',
};

function relayError(error: unknown, loras: readonly string[]): Error {
  const { code, port, ...rest } = error as { code?: string; port?: number; address?: string; hostname?: string };
  const address = rest.address ?? rest.hostname;
  if (code === 'EADDRINUSE') {
    return new CliError(`port ${port} of ${address} is in use: end what uses it, or choose --port and --web-port.`);
  }
  const reason = code === undefined ? undefined : LISTEN_FAILURES[code];
  if (reason !== undefined) return new CliError(`the relay cannot listen on ${address ?? 'that host'}: ${reason}.`);
  // Options that make no sense are told by their flags' names.
  if (error instanceof RangeError) return new CliError(error.message, 2);
  if (code === 'ENOENT' || code === 'EISDIR') return new CliError(`${(error as Error).message}.`);
  // The model's files are the user's: what is wrong with them is a sentence, not a stack.
  if (error instanceof Error && ['CheckpointError', 'ModelError'].includes(error.name)) {
    return new CliError(`${error.message}.`);
  }
  // Before the relay is up only adapters are refused so.
  if (error instanceof Error && error.name === 'ContractError' && loras.length > 0) {
    return new CliError(`--lora ${loras.join(' --lora ')}: ${error.message}`);
  }
  return error as Error;
}
