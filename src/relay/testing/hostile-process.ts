import { connect, type Socket } from 'node:net';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { bearer, sessionFor } from './bearer.ts';
import { requestOf } from './relay-bench.ts';

/**
 * A host that does harm, in a process of its own, so that what it costs itself is not taken for harm to others. Its one
 * argument is JSON; it goes on until a message comes, and tells how often it tried.
 */
const { attack, host, port, nodeToken, clientToken } = JSON.parse(process.argv[2] ?? '{}') as {
  readonly attack: string;
  readonly host: string;
  readonly port: number;
  readonly nodeToken: string;
  readonly clientToken: string;
};
const url = `http://${host}:${port}`;
const REPORT = '/shoal.relay.v1.NodeRelay/Report';
const stop = new AbortController();
process.on('message', () => stop.abort());
process.on('disconnect', () => process.exit(0));
const sockets: Socket[] = [];
let attempts = 0;

/** Again and again, by so many at a time. */
async function keepAt(workers: number, act: () => Promise<unknown>): Promise<void> {
  const work = async () => {
    while (!stop.signal.aborted) {
      await act().catch(() => {});
      attempts++;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
}

async function post(path: string, headers: Record<string, string>, body: string | Buffer<ArrayBuffer>): Promise<void> {
  const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body, signal: stop.signal });
  await answer.arrayBuffer();
}

/** A connection that sends `text`, and after that nothing. */
function hang(text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => socket.write(text, () => resolve()));
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('close', () => resolve());
  });
}

const proto = { 'content-type': 'application/proto' };

const ATTACKS: Readonly<Record<string, () => Promise<void>>> = {
  connects: () =>
    keepAt(250, async () => {
      if (sockets.length < 10_000) await hang('');
      else await new Promise((resolve) => setTimeout(resolve, 50));
    }),
  'endless heads': () => keepAt(8, () => hang('GET / HTTP/1.1\r\nHost: x\r\nA')),
  'wrong tokens': () => {
    const headers = { authorization: `Bearer ${'x'.repeat(40)}`, 'content-type': 'application/json' };
    return keepAt(8, () => post('/session', headers, '{}'));
  },
  'no session': () => keepAt(8, () => post(REPORT, proto, 'x')),
  'giant bodies, no session': () => {
    const body = Buffer.alloc(20 * 1024 * 1024);
    return keepAt(2, () => post(REPORT, proto, body));
  },
  'giant reports': async () => {
    const authorization = `Bearer ${await sessionFor(url, nodeToken)}`;
    const body = Buffer.alloc(7 * 1024 * 1024, 0x0a);
    await keepAt(2, () => post(REPORT, { ...proto, authorization }, body));
  },
  'flood and reset': async () => {
    const interceptors = [bearer(await sessionFor(url, clientToken))];
    const client = createClient(
      SglangScheduler,
      createConnectTransport({ baseUrl: url, httpVersion: '1.1', interceptors }),
    );
    await keepAt(16, async () => {
      const leave = new AbortController();
      setTimeout(() => leave.abort(), 2);
      for await (const _ of client.generate(requestOf([9], { maxNewTokens: 400 }), leave)) void _;
    });
  },
};

process.send?.('ready');
await ATTACKS[attack]!();
for (const socket of sockets) socket.destroy();
process.send?.(attempts);
