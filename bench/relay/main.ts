import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { Child, type Usage } from './child.ts';
import type { LoadOptions, LoadResult } from './load-child.ts';

const NODES = 100;
const STREAMS = 1_000;
const TOKENS = 256;
const WARM_MS = 2_500;
const MS = 5_000;
/** Where V8's profile of the relay at its top rate goes. */
const profileFile = process.argv.find((arg) => arg.startsWith('--profile='))?.slice(10);

const children: Child[] = [];

async function start(...args: Parameters<typeof Child.start>): Promise<Child> {
  const child = await Child.start(...args);
  children.push(child);
  return child;
}

/** What processes used between two calls, by name. */
async function cpuShares(named: Readonly<Record<string, Child>>): Promise<Record<string, number>> {
  const shares: Record<string, number> = {};
  for (const [name, child] of Object.entries(named)) shares[name] = (await child.usage()).cpuShare;
  return shares;
}

interface Rate {
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

/** From a token's making at its node to its arrival at the client, in milliseconds, ascending. */
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

async function measureRelay(load: Child) {
  tell('the relay: idle streams');
  const relay = await start('relay-child.ts');
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
  if (profileFile !== undefined) await relay.ask('beginProfile');
  const top = await rateOf(load, ports.grpcPort, { relay, nodes });
  if (profileFile !== undefined) await relay.ask('endProfile', profileFile);
  const stepMs = (STREAMS * 1_000) / (top.messagesPerSecond / 2);
  tell('half of it');
  await nodes.ask('pace', stepMs);
  const half = await rateOf(load, ports.grpcPort, { relay, nodes });
  const added = latencies(await nodes.ask('births'), half.result);
  await nodes.end();
  await relay.end();
  return { idle, top, half, stepMs, added };
}

async function measureBare(load: Child, library: 'connect-node' | 'grpc-js') {
  tell(`bare ${library}`);
  const server = await start('echo-child.ts');
  const port = await server.ask<number>('start', library);
  await load.ask('idle', { port, streams: 20, tokens: 1, warmMs: 0, ms: 0 } satisfies LoadOptions);
  await load.ask('leave');
  const idle = await idleBytes(server, port, load, 1);
  const rate = await rateOf(load, port, { server });
  await server.end();
  return { idle, rate };
}

const round = (value: number, digits = 0) => Number(value.toFixed(digits));
const shares = (all: Record<string, number>) =>
  Object.entries(all)
    .map(([name, share]) => `${name} ${round(share * 100)} %`)
    .join(', ');

async function main(): Promise<void> {
  const load = await start('load-child.ts');
  const relay = await measureRelay(load);
  const connect = await measureBare(load, 'connect-node');
  const grpc = await measureBare(load, 'grpc-js');
  const [p50, p99] = [quantile(relay.added, 0.5), quantile(relay.added, 0.99)];
  const share = relay.top.messagesPerSecond / connect.rate.messagesPerSecond;
  const aboveBare = relay.idle.held - connect.idle.held;
  const bars = [
    { bar: 'top rate ≥ 50 % of bare connect-node', value: `${round(share * 100)} %`, holds: share >= 0.5 },
    { bar: 'added latency p50 ≤ 1 ms at half the top rate', value: `${round(p50, 2)} ms`, holds: p50 <= 1 },
    { bar: 'added latency p99 ≤ 10 ms at half the top rate', value: `${round(p99, 2)} ms`, holds: p99 <= 10 },
    {
      bar: 'an idle stream ≤ 30 KB above bare connect-node',
      value: `${round(aboveBare / 1_024, 1)} KB`,
      holds: aboveBare <= 30 * 1_024,
    },
  ];
  const rows = [
    ['relay, top', relay.top],
    [`relay, a step every ${round(relay.stepMs)} ms`, relay.half],
    ['bare connect-node', connect.rate],
    ['bare grpc-js', grpc.rate],
  ] as const;
  console.log(
    `${STREAMS} streams over ${NODES} nodes, ${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}`,
  );
  for (const [name, rate] of rows) {
    console.log(`${name}: ${round(rate.messagesPerSecond)} messages/s; CPU ${shares(rate.cpuShares)}`);
  }
  console.log(`added latency per token: p50 ${round(p50, 2)} ms, p99 ${round(p99, 2)} ms, of ${relay.added.length}`);
  const perStream = ({ held, rss }: typeof relay.idle) => `${round(held / 1_024, 1)} KB (rss ${round(rss / 1_024, 1)})`;
  console.log(
    `idle stream: relay ${perStream(relay.idle)}, connect-node ${perStream(connect.idle)}, grpc-js ${perStream(grpc.idle)}`,
  );
  for (const { bar, value, holds } of bars) console.log(`${holds ? 'holds' : 'MISS '}  ${bar}: ${value}`);

  const rates = rows.map(([name, rate]) => ({ name, messagesPerSecond: rate.messagesPerSecond, cpu: rate.cpuShares }));
  const idle = { relay: relay.idle, 'connect-node': connect.idle, 'grpc-js': grpc.idle };
  const added = { p50Ms: p50, p99Ms: p99, tokens: relay.added.length };
  const machine = { cpus: cpus().length, model: cpus()[0]?.model, node: process.version };
  const folder = new URL('../results/', import.meta.url);
  mkdirSync(folder, { recursive: true });
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '-');
  const file = new URL(`relay-node-${stamp}.json`, folder);
  writeFileSync(
    file,
    `${JSON.stringify({ machine, nodes: NODES, streams: STREAMS, rates, added, idle, bars }, null, 2)}\n`,
  );
  console.log(`written: bench/results/relay-node-${stamp}.json`);
}

try {
  await main();
} finally {
  await Promise.all(children.map((child) => child.end().catch(() => {})));
}
