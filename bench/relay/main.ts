import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { endAll, measureBare, measureRelay, median, NODES, p99, STREAMS, start } from './measure.ts';

const optionOf = (name: string) => process.argv.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3);

const round = (value: number, digits = 0) => Number(value.toFixed(digits));
const shares = (all: Record<string, number>) =>
  Object.entries(all)
    .map(([name, share]) => `${name} ${round(share * 100)} %`)
    .join(', ');

async function main(): Promise<void> {
  const load = await start('load-child.ts');
  const relay = await measureRelay(load, { top: optionOf('profile'), half: optionOf('profile-half') });
  const connect = await measureBare(load, 'connect-node', relay.stepMs);
  const grpc = await measureBare(load, 'grpc-js', relay.stepMs);
  // One of the bare servers may have its fill at the relay's pace: the better one is what the relay could be.
  const over = (quantile: typeof p99) => quantile(relay.took) - Math.min(quantile(connect.took), quantile(grpc.took));
  const added = { p50: over(median), p99: over(p99) };
  const share = relay.top.messagesPerSecond / connect.rate.messagesPerSecond;
  const aboveBare = relay.idle.held - connect.idle.held;
  const bars = [
    { bar: 'top rate ≥ 50 % of bare connect-node', value: `${round(share * 100)} %`, holds: share >= 0.5 },
    {
      bar: "latency's p50 ≤ 1 ms above the better bare server's, at half the top rate",
      value: `${round(added.p50, 2)} ms`,
      holds: added.p50 <= 1,
    },
    {
      bar: "latency's p99 ≤ 10 ms above the better bare server's, at half the top rate",
      value: `${round(added.p99, 2)} ms`,
      holds: added.p99 <= 10,
    },
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
    ['bare connect-node at that pace', connect.paced],
    ['bare grpc-js', grpc.rate],
    ['bare grpc-js at that pace', grpc.paced],
  ] as const;
  console.log(
    `${STREAMS} streams over ${NODES} nodes, ${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}`,
  );
  for (const [name, rate] of rows) {
    console.log(`${name}: ${round(rate.messagesPerSecond)} messages/s; CPU ${shares(rate.cpuShares)}`);
  }
  for (const [name, took] of [
    ['relay', relay.took],
    ['bare connect-node', connect.took],
    ['bare grpc-js', grpc.took],
  ] as const) {
    const of = `of ${took.length} tokens`;
    console.log(
      `from making to client, ${name}: p50 ${round(median(took), 2)} ms, p99 ${round(p99(took), 2)} ms, ${of}`,
    );
  }
  const perStream = ({ held, rss }: typeof relay.idle) => `${round(held / 1_024, 1)} KB (rss ${round(rss / 1_024, 1)})`;
  console.log(
    `idle stream: relay ${perStream(relay.idle)}, connect-node ${perStream(connect.idle)}, grpc-js ${perStream(grpc.idle)}`,
  );
  for (const { bar, value, holds } of bars) console.log(`${holds ? 'holds' : 'MISS '}  ${bar}: ${value}`);

  const rates = rows.map(([name, rate]) => ({ name, messagesPerSecond: rate.messagesPerSecond, cpu: rate.cpuShares }));
  const idle = { relay: relay.idle, 'connect-node': connect.idle, 'grpc-js': grpc.idle };
  const latency = (sorted: Float64Array) => ({ p50Ms: median(sorted), p99Ms: p99(sorted), tokens: sorted.length });
  const latencies = {
    relay: latency(relay.took),
    'connect-node': latency(connect.took),
    'grpc-js': latency(grpc.took),
  };
  const machine = { cpus: cpus().length, model: cpus()[0]?.model, node: process.version };
  const folder = new URL('../results/', import.meta.url);
  mkdirSync(folder, { recursive: true });
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '-');
  const file = new URL(`relay-node-${stamp}.json`, folder);
  writeFileSync(
    file,
    `${JSON.stringify({ machine, nodes: NODES, streams: STREAMS, rates, latencies, idle, bars }, null, 2)}\n`,
  );
  console.log(`written: bench/results/relay-node-${stamp}.json`);
}

try {
  await main();
} finally {
  await endAll();
}
