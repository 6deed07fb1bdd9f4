import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Child, type Usage } from './child.ts';
import type { LoadOptions, LoadResult } from './load-child.ts';

export const NODES = 100;
export const STREAMS = 1_000;
const TOKENS = 256;
/** As deploy/ starts it. */
const RELAY_FLAGS = ['--max-semi-space-size=64'];
const WARM_MS = 4_000;
const MS = 5_000;

const children: Child[] = [];

export async function start(...args: Parameters<typeof Child.start>): Promise<Child> {
  const child = await Child.start(...args);
  children.push(child);
  return child;
}

let machineBefore = { busyMs: 0, at: 0 };

/** What processes used between two calls, of one core, by name; `others` is all else on the machine. */
async function cpuShares(named: Readonly<Record<string, Child>>): Promise<Record<string, number>> {
  const shares: Record<string, number> = {};
  for (const [name, child] of Object.entries(named)) shares[name] = (await child.usage()).cpuShare;
  let busyMs = 0;
  for (const { times } of cpus()) busyMs += times.user + times.nice + times.sys + times.irq;
  const now = { busyMs, at: performance.now() };
  const ours = Object.values(shares).reduce((sum, share) => sum + share, 0);
  shares.others = Math.max(0, (now.busyMs - machineBefore.busyMs) / (now.at - machineBefore.at) - ours);
  machineBefore = now;
  return shares;
}

export interface Rate {
  readonly messagesPerSecond: number;
  readonly cpuShares: Record<string, number>;
  readonly result: LoadResult;
}

/** As many messages as come, with as many streams all the time. */
async function rateOf(load: Child, port: number, named: Readonly<Record<string, Child>>): Promise<Rate> {
  const all = { load, ...named };
  await cpuShares(all);
  const options: LoadOptions = { port, streams: STREAMS, tokens: TOKENS, warmMs: WARM_MS, ms: MS };
  const result = await load.ask<LoadResult>('run', options);
  return { messagesPerSecond: (result.messages * 1_000) / result.ms, cpuShares: await cpuShares(all), result };
}

/** What a process holds for each stream that is open and silent. `tokens` is what a stream is asked for. */
async function idleBytes(server: Child, port: number, load: Child, tokens: number) {
  const before: Usage = await server.usage();
  const options: LoadOptions = { port, streams: STREAMS, tokens, warmMs: 0, ms: 0 };
  await load.ask('idle', options);
  const open: Usage = await server.usage();
  await load.ask('leave');
  return {
    held: (open.heldBytes - before.heldBytes) / STREAMS,
    rss: (open.rssBytes - before.rssBytes) / STREAMS,
  };
}

function quantile(sorted: Float64Array, q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

/** From a token's making, at its node or at a bare server, to its arrival at the client, in milliseconds, ascending. */
function latencies(births: ReadonlyMap<number, Float64Array>, { arrivals }: LoadResult): Float64Array {
  const all: number[] = [];
  for (const [number, times] of arrivals) {
    const made = births.get(number);
    times.forEach((at, i) => {
      if (at > 0 && made?.[i]) all.push((at - made[i]) / 1_000);
    });
  }
  return Float64Array.from(all).sort();
}

/** What is under way, to whoever waits. */
function tell(what: string): void {
  console.error(what);
}

async function profiled<T>(relay: Child, file: string | undefined, run: () => Promise<T>): Promise<T> {
  if (file === undefined) return run();
  const begun = sleep(WARM_MS).then(() => relay.ask('beginProfile'));
  const result = await run();
  await begun;
  await relay.ask('endProfile', file);
  return result;
}

/** Files for V8's profiles of the relay: at its top rate, and at half of it. */
export interface ProfileFiles {
  readonly top: string | undefined;
  readonly half: string | undefined;
}

export async function measureRelay(load: Child, profiles: ProfileFiles) {
  tell('the relay: idle streams');
  const relay = await start('relay-child.ts', RELAY_FLAGS);
  const ports = await relay.ask<{ grpcPort: number; webPort: number; digest: string }>('start');
  const nodes = await start('nodes-child.ts');
  await nodes.ask('attach', { count: NODES, webPort: ports.webPort, digest: ports.digest });
  // What is made once, for the first stream, is no stream's own.
  await nodes.ask('pace', undefined);
  await load.ask('idle', { port: ports.grpcPort, streams: 20, tokens: TOKENS, warmMs: 0, ms: 0 } satisfies LoadOptions);
  await load.ask('leave');
  const idle = await idleBytes(relay, ports.grpcPort, load, TOKENS);
  tell('its top rate');
  await nodes.ask('pace', 0);
  const top = await profiled(relay, profiles.top, () => rateOf(load, ports.grpcPort, { relay, nodes }));
  const stepMs = (STREAMS * 1_000) / (top.messagesPerSecond / 2);
  tell('half of it');
  await nodes.ask('pace', stepMs);
  const half = await profiled(relay, profiles.half, () => rateOf(load, ports.grpcPort, { relay, nodes }));
  const took = latencies(await nodes.ask('births'), half.result);
  await nodes.end();
  await relay.end();
  return { idle, top, half, stepMs, took };
}

/** As fast as it goes, and with a step every `stepMs`. */
export async function measureBare(load: Child, library: 'connect-node' | 'grpc-js', stepMs: number) {
  tell(`bare ${library}`);
  const server = await start('echo-child.ts');
  const port = await server.ask<number>('start', library);
  await load.ask('idle', { port, streams: 20, tokens: 1, warmMs: 0, ms: 0 } satisfies LoadOptions);
  await load.ask('leave');
  const idle = await idleBytes(server, port, load, 1);
  const rate = await rateOf(load, port, { server });
  tell("at the relay's pace");
  await server.ask('pace', stepMs);
  const paced = await rateOf(load, port, { server });
  const took = latencies(await server.ask('births'), paced.result);
  await server.end();
  return { idle, rate, paced, took };
}

export const median = (sorted: Float64Array) => quantile(sorted, 0.5);
export const p99 = (sorted: Float64Array) => quantile(sorted, 0.99);

export async function endAll(): Promise<void> {
  await Promise.all(children.map((child) => child.end().catch(() => {})));
}
