import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from 'node:http2';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { afterEach, expect, test, vi } from 'vitest';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  type GenerateResponse,
  GenerateResponseSchema,
  TokenizedInputSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import type { RelayOptions } from './options.ts';
import { RelayBench, requestOf } from './testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const PATH = '/sglang.grpc.scheduler.SglangScheduler/Generate';

let bench: RelayBench | undefined;
let session: ClientHttp2Session | undefined;
afterEach(async () => {
  session?.destroy();
  await bench?.end();
});

/** A relay, and one bare HTTP/2 connection to it. */
async function open(options: Partial<RelayOptions> = {}): Promise<[RelayBench, ClientHttp2Session]> {
  bench = await RelayBench.start(options);
  session = connect(`http://127.0.0.1:${bench.relay.grpcPort}`);
  session.on('error', () => {});
  return [bench, session];
}

function call(on: ClientHttp2Session): ClientHttp2Stream {
  const stream = on.request({ ':method': 'POST', ':path': PATH, 'content-type': 'application/grpc', te: 'trailers' });
  stream.on('error', () => {});
  return stream;
}

function enveloped(request: GenerateRequest): Buffer {
  const message = toBinary(GenerateRequestSchema, request);
  const bytes = Buffer.alloc(5 + message.length);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, 5);
  return bytes;
}

function messagesOf(body: Buffer): GenerateResponse[] {
  const messages: GenerateResponse[] = [];
  for (let at = 0; at < body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    messages.push(fromBinary(GenerateResponseSchema, body.subarray(at + 5, end)));
    at = end;
  }
  return messages;
}

function headersOf(stream: ClientHttp2Stream): Promise<{ headers: IncomingHttpHeaders; ended: boolean }> {
  return new Promise((resolve, reject) => {
    stream.once('response', (headers, flags) => resolve({ headers, ended: (flags & 1) === 1 }));
    stream.setTimeout(5_000, () => reject(new Error('no headers within 5 s')));
  });
}

test('a deadline of the client’s own after chunks: `error` first, then the status', async () => {
  const [relay, on] = await open();
  await relay.node({ stepMs: 5 });
  const stream = on.request({
    ':method': 'POST',
    ':path': PATH,
    'content-type': 'application/grpc',
    te: 'trailers',
    'grpc-timeout': '400m',
  });
  stream.on('error', () => {});
  const trailers = new Promise<IncomingHttpHeaders>((resolve) => stream.once('trailers', resolve));
  const body: Buffer[] = [];
  stream.on('data', (bytes: Buffer) => body.push(bytes));
  stream.end(enveloped(requestOf([1, 2, 3], { maxNewTokens: 500 })));
  expect((await trailers)['grpc-status']).toBe(String(status.DEADLINE_EXCEEDED));
  const messages = messagesOf(Buffer.concat(body)).map(({ response }) => response);
  expect(messages.length).toBeGreaterThan(1);
  expect(messages.slice(0, -1).every((one) => one.case === 'chunk')).toBe(true);
  expect(messages.at(-1)).toMatchObject({ case: 'error', value: { httpStatusCode: '504' } });
});

test('a refusal is trailers only: one HEADERS frame that ends the stream', async () => {
  const [, on] = await open();
  const stream = call(on);
  stream.end(enveloped(requestOf([5], { topP: 1.5 })));
  const { headers, ended } = await headersOf(stream);
  expect(ended).toBe(true);
  expect(headers).toMatchObject({
    ':status': 200,
    'grpc-status': String(status.INVALID_ARGUMENT),
    'grpc-message': 'top_p must be in (0, 1], got 1.5.',
  });
});

test('a refusal while the request still comes in', async () => {
  const [, on] = await open();
  const stream = call(on);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(2 ** 31, 1);
  stream.write(head);
  const { headers, ended } = await headersOf(stream);
  expect([headers['grpc-status'], ended]).toEqual([String(status.RESOURCE_EXHAUSTED), true]);
});

test('bytes being received are bounded over all streams, and free again once their streams are gone', async () => {
  const [on, h2] = await open({ receivingMaxBytes: 1_000_000 });
  await on.node();
  const half = () => {
    const stream = call(h2);
    const part = Buffer.alloc(600_000);
    part.writeUInt32BE(900_000, 1);
    stream.write(part);
    return stream;
  };
  const first = half();
  const second = half();
  const refused = await Promise.race([headersOf(first), headersOf(second)]);
  expect(refused.headers['grpc-status']).toBe(String(status.RESOURCE_EXHAUSTED));
  for (const stream of [first, second]) stream.close();
  const padded = create(TokenizedInputSchema, { inputIds: [5], originalText: 'x'.repeat(700_000) });
  await expect
    .poll(async () => {
      const again = call(h2);
      again.end(enveloped(requestOf([5], { maxNewTokens: 1 }, { tokenized: padded, stream: false })));
      return (await headersOf(again)).headers['grpc-status'] ?? 'taken';
    })
    .toBe('taken');
});

test('a request that does not arrive gets DEADLINE_EXCEEDED', async () => {
  const [, on] = await open({ receiveMs: 100 });
  const stream = call(on);
  stream.write(Buffer.alloc(3));
  const { headers } = await headersOf(stream);
  expect(headers['grpc-status']).toBe(String(status.DEADLINE_EXCEEDED));
});

test('a client that stops reading for good loses its stream, and the node its job', async () => {
  const [on, h2] = await open({ stallMs: 300 });
  const node = await on.node({ tokensPerStep: 8 });
  const stream = call(h2);
  const closed = new Promise((resolve) => stream.once('close', resolve));
  stream.pause();
  stream.end(enveloped(requestOf([5], { maxNewTokens: 500 }, { returnLogprob: true, topLogprobsNum: 500 })));
  await node.until(() => node.commandsOf('abort').length === 1);
  stream.resume();
  await closed;
});

test('pings are answered, and many of them end nothing', async () => {
  const [on, h2] = await open();
  await on.node({ stepMs: 2 });
  const stream = call(h2);
  stream.end(enveloped(requestOf([5], { maxNewTokens: 200 })));
  let away = false;
  h2.on('goaway', () => {
    away = true;
  });
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  const trailers = new Promise<IncomingHttpHeaders>((resolve) => stream.once('trailers', resolve));
  for (let turn = 0; turn < 200; turn++) {
    await new Promise<void>((resolve, reject) => h2.ping((error) => (error ? reject(error) : resolve())));
  }
  expect((await trailers)['grpc-status']).toBe('0');
  expect(bytes).toBeGreaterThan(200 * 10);
  expect(away).toBe(false);
});
