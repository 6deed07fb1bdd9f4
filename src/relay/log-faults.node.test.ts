import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createConnectRouter } from '@connectrpc/connect';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { NodeRelay, ReportRequestSchema } from '../contract/gen/node_relay_pb.ts';
import { logFaults } from './log-faults.ts';

/** What is logged where a handler throws `error`; `leave` is how its client goes before. */
async function loggedOf(error: (signal: AbortSignal) => unknown, leave: boolean): Promise<string[]> {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const client = new AbortController();
  const router = createConnectRouter({ interceptors: [logFaults(log)] }).service(NodeRelay, {
    report: (_, { signal }) => {
      if (leave) client.abort();
      throw error(signal);
    },
  });
  const handler = router.handlers.find(({ requestPath }) => requestPath.endsWith('/Report'))!;
  const body = { ...create(ReportRequestSchema) };
  await handler({
    httpVersion: '2.0',
    method: 'POST',
    url: `http://relay${handler.requestPath}`,
    header: new Headers({ 'content-type': 'application/json' }),
    body: { lastCommandSeq: String(body.lastCommandSeq) },
    signal: client.signal,
  }).catch(() => {});
  return lines;
}

test('a fault is logged, a status that a client is told is not', async () => {
  expect(await loggedOf(() => new TypeError('broken'), false)).toEqual([expect.stringContaining('broken')]);
  expect(await loggedOf(() => new ConnectError('no', Code.NotFound), false)).toEqual([]);
});

test('what breaks off with a client that has left is not logged, and a fault of then is', async () => {
  expect(await loggedOf((signal) => signal.reason, true)).toEqual([]);
  expect(await loggedOf(() => new TypeError('broken'), true)).toEqual([expect.stringContaining('broken')]);
});
