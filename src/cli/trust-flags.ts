import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Role } from '../relay/auth/roles.ts';
import type { RelayOptions } from '../relay/options.ts';
import { parsePositive, parsePositiveDuration } from './values.ts';

/** The flags of who may reach what, and how much of it. */
export interface TrustFlags {
  readonly grpcListen: string;
  readonly allowFrom: readonly string[];
  readonly webHost: string;
  readonly host: readonly string[];
  readonly nodeToken: readonly string[];
  readonly clientToken: readonly string[];
  readonly operatorToken: readonly string[];
  readonly tokenFile?: string;
  readonly open?: boolean;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly sessionLife: number;
  readonly nodeRate: number;
  readonly nodeInFlight: number;
  readonly nodeBytes: number;
  readonly clientRate: number;
  readonly clientInFlight: number;
  readonly clientBytes: number;
  readonly hostRate: number;
  readonly hostInFlight: number;
  readonly hostBytes: number;
  readonly hostConnections: number;
  readonly hostNodes: number;
  readonly sessionNodes: number;
}

const MIB = 1024 * 1024;

/** Several of a flag, or several in one, between commas. */
function list(text: string, before: readonly string[]): readonly string[] {
  return [...before, ...text.split(',').map((one) => one.trim())].filter((one) => one !== '');
}

/** `65536`, `64KiB` or `8MiB`, in bytes. */
function parseBytes(text: string): number {
  const match = /^(\d{1,10})(KiB|MiB)?$/.exec(text);
  const bytes = match ? Number(match[1]) * { B: 1, KiB: 1024, MiB: MIB }[match[2] ?? 'B']! : 0;
  if (bytes < 1 || bytes > 0x7fff_ffff) {
    throw new InvalidArgumentError('it must be bytes, or a number with KiB or MiB, up to 2047MiB.');
  }
  return bytes;
}

export function many(flags: string, description: string): Option {
  return new Option(flags, `${description}; may be repeated`).argParser(list).default([], 'none');
}

function count(flags: string, description: string, value: number): Option {
  return new Option(flags, description).argParser(parsePositive).default(value);
}

function bytes(flags: string, description: string, mebibytes: number): Option {
  return new Option(flags, description).argParser(parseBytes).default(mebibytes * MIB, `${mebibytes}MiB`);
}

export function withTrustFlags(command: Command): Command {
  const options = [
    new Option(
      '--grpc-listen <address>',
      'where gateways reach the relay (gRPC); not loopback: only with --allow-from',
    ).default('127.0.0.1'),
    many('--allow-from <cidr>', 'addresses that gateways may connect from, such as 10.0.0.0/8'),
    new Option('--web-host <address>', 'where browsers reach it; not loopback: only with tokens, or --open').default(
      '127.0.0.1',
    ),
    many('--host <name>', 'a name under which browsers reach it, beside addresses and localhost'),
    many('--node-token <token>', 'lets pages serve'),
    many('--client-token <token>', 'lets clients ask on the web port'),
    many('--operator-token <token>', 'lets operators ask and operate on the web port'),
    new Option(
      '--token-file <file>',
      'more tokens, a role and a token a line; read again when it changes, or on SIGHUP',
    ),
    new Option('--open', 'lets everybody who reaches the web port do everything'),
    new Option('--tls-cert <file>', "the web port's certificate and its chain, in PEM; read again on SIGHUP"),
    new Option('--tls-key <file>', 'its key, in PEM'),
    new Option('--session-life <time>', 'how long a session of the web port lives that nothing is asked with')
      .argParser(parsePositiveDuration)
      .default(900_000, '15m'),
    count('--node-rate <n>', "requests a second of a node's session", 200),
    count('--node-in-flight <n>', 'its requests at a time', 64),
    bytes('--node-bytes <n>', 'its bytes a second', 32),
    count('--client-rate <n>', "requests a second of a client's or operator's session", 50),
    count('--client-in-flight <n>', 'its requests at a time', 64),
    bytes('--client-bytes <n>', 'its bytes a second', 8),
    count('--host-rate <n>', 'requests a second of a host other than this machine', 2_000),
    count('--host-in-flight <n>', 'its requests at a time', 2_048),
    bytes('--host-bytes <n>', 'its bytes a second', 128),
    count('--host-connections <n>', 'its connections', 512),
    count('--host-nodes <n>', 'its nodes', 128),
    count('--session-nodes <n>', 'nodes of one session', 8),
  ];
  for (const option of options) command.addOption(option);
  return command;
}

/** The relay's options of these flags. */
export function trustOptions(flags: TrustFlags): Partial<RelayOptions> {
  const of = (role: Role, tokens: readonly string[]) => tokens.map((token) => ({ role, token }));
  const { allowFrom, tokenFile, open, tlsCert, tlsKey } = flags;
  return {
    grpcHost: flags.grpcListen,
    webHost: flags.webHost,
    allowFrom,
    hosts: flags.host,
    tokens: [
      ...of('node', flags.nodeToken),
      ...of('client', flags.clientToken),
      ...of('operator', flags.operatorToken),
    ],
    ...(tokenFile === undefined ? {} : { tokenFile }),
    ...(open === undefined ? {} : { open }),
    ...(tlsCert === undefined ? {} : { tlsCert }),
    ...(tlsKey === undefined ? {} : { tlsKey }),
    sessionMs: flags.sessionLife,
    nodeRate: flags.nodeRate,
    nodeInFlight: flags.nodeInFlight,
    nodeBytes: flags.nodeBytes,
    clientRate: flags.clientRate,
    clientInFlight: flags.clientInFlight,
    clientBytes: flags.clientBytes,
    hostRate: flags.hostRate,
    hostInFlight: flags.hostInFlight,
    hostBytes: flags.hostBytes,
    hostConnections: flags.hostConnections,
    hostNodes: flags.hostNodes,
    sessionNodes: flags.sessionNodes,
  };
}
