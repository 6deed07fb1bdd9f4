// What docs/operations.md tells of the relay's memory. SHOAL_LONG=1 prints the table.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { ForkedRelay } from './testing/forked-relay.ts';
import { GrpcClient } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { ScriptedNode } from './testing/scripted-node.ts';

const LONG = process.env.SHOAL_LONG === '1';
const NODES = 200;
const STREAMS = 1_000;
const PROMPT_TOKENS = 400;

test.skipIf(!LONG)(
  'what the relay takes, alone, with nodes, with requests that run and that wait',
  async () => {
    const relay = await ForkedRelay.start();
    onTestFinished(() => relay.end());
    const client = new GrpcClient(relay.grpcPort);
    onTestFinished(() => client.close());
    const nodes: ScriptedNode[] = [];
    onTestFinished(() => {
      for (const node of nodes) node.kill();
    });
    const mib = async () => {
      await sleep(1_000);
      return (await relay.longestStall()).rssMiB;
    };
    const open = (count: number) => {
      const ids = Array.from({ length: PROMPT_TOKENS }, (_, at) => at);
      for (let at = 0; at < count; at++) {
        const stream = client.stream(SglangScheduler.method.generate, requestOf(ids, { maxNewTokens: 64 }));
        stream.on('error', () => {});
        stream.resume();
      }
    };
    const table: Record<string, number> = {};
    table.alone = await mib();
    for (let at = 0; at < NODES; at++) {
      const script = { webPort: relay.webPort, modelDigest: relay.digest, manual: true, maxRunning: STREAMS / NODES };
      nodes.push(await ScriptedNode.attach(script));
    }
    table[`${NODES} nodes`] = await mib();
    open(STREAMS);
    await expect.poll(() => nodes.reduce((sum, { jobs }) => sum + jobs.length, 0), { timeout: 20_000 }).toBe(STREAMS);
    table[`${STREAMS} requests of ${PROMPT_TOKENS} tokens at them`] = await mib();
    open(STREAMS);
    table[`${STREAMS} more that wait`] = await mib();
    console.table(
      Object.fromEntries(Object.entries(table).map(([what, rss]) => [what, { 'RSS, MiB': Math.round(rss) }])),
    );
    expect(table[`${STREAMS} more that wait`]).toBeLessThan(512);
  },
  120_000,
);
