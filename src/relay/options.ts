import type { Logger } from 'pino';
import type { ManifestQuantisation } from '../checkpoint/manifest.ts';
import type { RoleToken } from './auth/token-set.ts';
import type { ServedModel } from './served-model.ts';

/**
 * As SGLang's: longest cached prefix first; first come, first served; highest priority first, which grows with waiting.
 */
export const SCHEDULE_POLICIES = ['lpm', 'fcfs', 'priority'] as const;

export type SchedulePolicyName = (typeof SCHEDULE_POLICIES)[number];

/** How a relay is set up; everything but the model and the build has a default. Times are milliseconds. */
export interface RelayOptions {
  /** What `openModel` takes (a folder, a .gguf file, hf:owner/name), or what it gave. */
  readonly model: string | ServedModel;
  /** How nodes quantise a model of safetensors while they load it. */
  readonly quantisation?: ManifestQuantisation;
  /** URLs of folders with the model's files that nodes try before the relay; `hub`: where the hub has them. */
  readonly modelUrls?: readonly string[];
  /** Origins that these redirect to. */
  readonly modelCdns?: readonly string[];
  /** Folder for what can be made or fetched again; default: the system's, or `SHOAL_CACHE`. */
  readonly cacheDir?: string;
  /** Told what takes long before the relay is up. */
  readonly onProgress?: (line: string) => void;
  /** Gives up opening the model. */
  readonly signal?: AbortSignal;
  /** `pageHash` is the SHA-256 of the built page, hex. */
  readonly build: { readonly packageVersion: string; readonly pageHash: string };
  /** Folder of the built page; none is served without it. */
  readonly pageDir?: string;
  readonly grpcHost?: string;
  /** 0 takes a free port. */
  readonly grpcPort?: number;
  readonly webHost?: string;
  readonly webPort?: number;
  /** How long a node may be silent before its session ends. */
  readonly leaseMs?: number;
  readonly heartbeatMs?: number;
  /** How long a request waits for a first node. */
  readonly startWaitMs?: number;
  /** How long a request whose node was lost waits for another. */
  readonly rejoinWaitMs?: number;
  /** Requests that wait at the relay. */
  readonly maxQueued?: number;
  /** How long a request may wait for room at a node. */
  readonly queueMs?: number;
  /** From a request's arrival to its first token. */
  readonly firstTokenMs?: number;
  /** How long a node may make no token of a request that began there, before another gets it. */
  readonly tokenStallMs?: number;
  /** How long what runs at a node that is to leave goes on there, before another that could takes it. */
  readonly drainMs?: number;
  /** How long what runs goes on with weights that are about to be updated. */
  readonly updateDrainMs?: number;
  /** How long requests, and the rpc itself, wait for nodes that load other weights. */
  readonly updateLoadMs?: number;
  /** A whole request. */
  readonly requestMs?: number;
  /** How long a request's body may take to arrive. */
  readonly receiveMs?: number;
  /** How long a client may not read what is ready for it. */
  readonly stallMs?: number;
  /** How long `close` lets running requests go on. */
  readonly closeGraceMs?: number;
  /** Bytes of one request. */
  readonly readMaxBytes?: number;
  /** Bytes being received over all requests. */
  readonly receivingMaxBytes?: number;
  /** Fixes the number of ranks; any number of nodes may come without it. */
  readonly ranks?: number;
  /** In which order waiting requests are served, at the relay and in each node. */
  readonly schedulePolicy?: SchedulePolicyName;
  /** Where gateways may connect from beside this machine: addresses and CIDRs. */
  readonly allowFrom?: readonly string[];
  /** With tokens, nothing on the web port but the page works without its role's. */
  readonly tokens?: readonly RoleToken[];
  /** More of them, one a line after its role; read again when it changes. */
  readonly tokenFile?: string;
  /** Everybody who reaches the web port may do everything, on any address. */
  readonly open?: boolean;
  /** Names under which the web port answers, beside addresses and localhost. */
  readonly hosts?: readonly string[];
  /** PEM files of the web port's certificate, with its chain, and its key; both or none. */
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  /** How long a session lives that nothing is asked with. */
  readonly sessionMs?: number;
  /** Requests a second, requests at a time and bytes a second of a node's session. */
  readonly nodeRate?: number;
  readonly nodeInFlight?: number;
  readonly nodeBytes?: number;
  /** The same of a client's or an operator's. */
  readonly clientRate?: number;
  readonly clientInFlight?: number;
  readonly clientBytes?: number;
  /** The same of one host, whatever it asks with; not of this machine, whose proxy all may come through. */
  readonly hostRate?: number;
  readonly hostInFlight?: number;
  readonly hostBytes?: number;
  readonly hostConnections?: number;
  /** Nodes of one host, and of one session. */
  readonly hostNodes?: number;
  readonly sessionNodes?: number;
  /** LoRA adapters that nodes keep room for, and the rank that one may have. */
  readonly maxLoras?: number;
  /** Those to begin with: what requests name them by, and their folders. */
  readonly loras?: readonly { readonly name: string; readonly path: string }[];
  readonly maxLoraRank?: number;
  /** Part of the finished samples that another node scores and the relay redraws, in [0, 1]. */
  readonly auditShare?: number;
  /** Defaults to warnings and worse on the standard output. */
  readonly logger?: Logger;
}

export const defaultOptions = {
  grpcHost: '127.0.0.1',
  grpcPort: 30001,
  webHost: '127.0.0.1',
  webPort: 8080,
  leaseMs: 15_000,
  heartbeatMs: 3_000,
  startWaitMs: 20_000,
  rejoinWaitMs: 30_000,
  maxQueued: 1024,
  queueMs: 120_000,
  firstTokenMs: 300_000,
  tokenStallMs: 120_000,
  drainMs: 10_000,
  updateDrainMs: 60_000,
  updateLoadMs: 120_000,
  requestMs: 3_600_000,
  receiveMs: 60_000,
  stallMs: 120_000,
  closeGraceMs: 3_000,
  readMaxBytes: 32 * 1024 * 1024,
  receivingMaxBytes: 128 * 1024 * 1024,
  sessionMs: 900_000,
  nodeRate: 200,
  nodeInFlight: 64,
  nodeBytes: 32 * 1024 * 1024,
  clientRate: 50,
  clientInFlight: 64,
  clientBytes: 8 * 1024 * 1024,
  hostRate: 2_000,
  hostInFlight: 2_048,
  hostBytes: 128 * 1024 * 1024,
  hostConnections: 512,
  hostNodes: 128,
  sessionNodes: 8,
  auditShare: 0.02,
  maxLoras: 0,
  maxLoraRank: 64,
} as const;

/** Options with the defaults in place. */
export type RelaySettings = {
  readonly [K in keyof typeof defaultOptions]: number extends RelayOptions[K] ? number : string;
} & {
  readonly ranks: number | undefined;
  readonly schedulePolicy: SchedulePolicyName;
};

/** Sessions at a time; each costs memory, and anyone may attach. */
export const MAX_NODES = 1024;

/** Zero means: not at all. */
const MAY_BE_ZERO: ReadonlySet<string> = new Set([
  'drainMs',
  'updateDrainMs',
  'startWaitMs',
  'rejoinWaitMs',
  'closeGraceMs',
  'maxQueued',
  'maxLoras',
]);

const MAX_TIMER_MS = 2 ** 31 - 1;

/** Fills in the defaults. Throws RangeError naming an option that makes no sense. */
export function settle(options: RelayOptions): RelaySettings {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const settings = { ...defaultOptions, ranks: undefined, schedulePolicy: 'lpm', ...given } as RelaySettings;
  for (const key of Object.keys(defaultOptions) as (keyof typeof defaultOptions)[]) {
    const value: unknown = settings[key];
    if (typeof value === 'string' || key === 'auditShare') continue;
    const least = key.endsWith('Port') || MAY_BE_ZERO.has(key) ? 0 : 1;
    if (!Number.isInteger(value) || (value as number) < least || (value as number) > MAX_TIMER_MS) {
      throw new RangeError(`${key} must be an integer in [${least}, ${MAX_TIMER_MS}], got ${String(value)}.`);
    }
  }
  const { ranks, schedulePolicy, auditShare } = settings;
  if (!(auditShare >= 0 && auditShare <= 1)) {
    throw new RangeError(`auditShare must be in [0, 1], got ${String(auditShare)}.`);
  }
  if (!SCHEDULE_POLICIES.includes(schedulePolicy)) {
    throw new RangeError(
      `schedulePolicy must be one of ${SCHEDULE_POLICIES.join(', ')}, got ${String(schedulePolicy)}.`,
    );
  }
  if (ranks !== undefined && (!Number.isInteger(ranks) || ranks < 1 || ranks > MAX_NODES)) {
    throw new RangeError(`ranks must be an integer in [1, ${MAX_NODES}], got ${ranks}.`);
  }
  // A node takes a stream that was silent for half a lease as dead: one late ping must not cut it.
  if (settings.heartbeatMs * 3 > settings.leaseMs) {
    throw new RangeError(
      `heartbeatMs must be at most a third of leaseMs (${settings.leaseMs}), got ${settings.heartbeatMs}.`,
    );
  }
  return settings;
}
