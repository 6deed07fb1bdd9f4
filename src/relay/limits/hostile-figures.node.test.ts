import { fork } from 'node:child_process';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { bearer, sessionFor } from '../testing/bearer.ts';
import { ForkedRelay } from '../testing/forked-relay.ts';
import { requestOf } from '../testing/relay-bench.ts';
import { outputOf } from '../testing/scripted-engine.ts';
import { ScriptedNode } from '../testing/scripted-node.ts';

const TOKENS = { node: 'node-token-0123456789', client: 'client-token-0123456789' };
/** Others come from here; a machine without any other address is one host only, and has no such others. */
const outer = Object.values(networkInterfaces())
  .flat()
  .find((one) => one && !one.internal && one.family === 'IPv4')?.address;
const runs = process.env.SHOAL_LONG === '1' && outer !== undefined;
const PHASE_MS = 4_000;

let relay: ForkedRelay;
let node: ScriptedNode;
let local: string;
beforeAll(async () => {
  if (!runs) return;
  relay = await ForkedRelay.start({
    webHost: '0.0.0.0',
    tokens: [
      { role: 'node', token: TOKENS.node },
      { role: 'client', token: TOKENS.client },
    ],
  });
  local = `http://127.0.0.1:${relay.webPort}`;
  const sessionToken = await sessionFor(local, TOKENS.node);
  node = await ScriptedNode.attach({ webPort: relay.webPort, modelDigest: relay.digest, sessionToken });
}, 60_000);
afterAll(() => {
  node?.kill();
  relay?.end();
});

interface Figures {
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
  readonly rssMiB: number;
  readonly stallMs: number;
}

/** What someone who does no harm sees meanwhile: streams of eight tokens, one after the other, each of them right. */
async function measure(): Promise<Figures> {
  const session = await sessionFor(local, TOKENS.client);
  const client = createClient(
    SglangScheduler,
    createConnectTransport({ baseUrl: local, httpVersion: '1.1', interceptors: [bearer(session)] }),
  );
  await relay.longestStall();
  const times: number[] = [];
  for (const end = performance.now() + PHASE_MS; performance.now() < end; ) {
    const started = performance.now();
    const ids: number[] = [];
    for await (const { response } of client.generate(requestOf([7], { maxNewTokens: 8 }))) {
      if (response.case === 'chunk') ids.push(...response.value.tokenIds);
    }
    times.push(performance.now() - started);
    expect(ids).toEqual(outputOf([7], 8));
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(share * (times.length - 1))]!;
  return { requests: times.length, p50: at(0.5), p99: at(0.99), ...(await relay.longestStall()) };
}

const ATTACKS = [
  'connects',
  'endless heads',
  'wrong tokens',
  'no session',
  'giant bodies, no session',
  'giant reports',
  'flood and reset',
];

/** Measures while another process attacks; returns the figures, and how often it tried. */
async function measureUnder(attack: string): Promise<[Figures, number]> {
  const script = new URL('../testing/hostile-process.ts', import.meta.url).pathname;
  const settings = { attack, host: outer, port: relay.webPort, nodeToken: TOKENS.node, clientToken: TOKENS.client };
  const child = fork(script, [JSON.stringify(settings)], {
    execArgv: ['--experimental-transform-types', '--no-warnings'],
  });
  const signal = AbortSignal.timeout(30_000);
  try {
    await once(child, 'message', { signal });
    const figures = await measure();
    const attempts = once(child, 'message', { signal });
    child.send('stop');
    return [figures, ((await attempts) as [number])[0]];
  } finally {
    child.kill('SIGKILL');
  }
}

test.runIf(runs)(
  'whatever a hostile host does, others get every answer: figures before, during and after',
  async () => {
    const rows: Record<string, Record<string, number>> = {};
    const tell = (name: string, { requests, p50, p99, rssMiB, stallMs }: Figures, attempts = 0) => {
      const round = (value: number) => Math.round(value * 10) / 10;
      rows[name] = {
        attempts,
        requests,
        p50: round(p50),
        p99: round(p99),
        'RSS MiB': round(rssMiB),
        stall: round(stallMs),
      };
    };
    const before = await measure();
    tell('before', before);
    for (const attack of ATTACKS) {
      const [during, attempts] = await measureUnder(attack);
      tell(attack, during, attempts);
    }
    const after = await measure();
    tell('after', after);
    console.table(rows);
    for (const [name, row] of Object.entries(rows)) {
      // The attacker has a core too: half as many is what a fair share would leave.
      expect(row.requests, name).toBeGreaterThan(before.requests / 3);
      expect(row.p99, name).toBeLessThan(500);
      expect(row.stall, name).toBeLessThan(100);
      expect(row['RSS MiB'], name).toBeLessThan(before.rssMiB + 200);
    }
    expect(after.p50).toBeLessThan(3 * before.p50 + 10);
    expect(relay.alive).toBe(true);
  },
  180_000,
);
