import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { connect } from 'node:net';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { expect, test, vi } from 'vitest';
import {
  Finished_Reason,
  NodeRelay,
  ReportRequestSchema,
  ReportResponseSchema,
} from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, idsOf, PROMPT } from './testing/bench-per-test.ts';
import { collect, pathOf } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();
const PATH = pathOf(NodeRelay.method.report);

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** With its length told, as browsers send it, a report is answered past Connect; without, by Connect. */
async function post(webPort: number, pieces: readonly Uint8Array[], direct = true, gapMs = 0): Promise<Answer> {
  const length = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const headers = { 'content-type': 'application/proto', ...(direct ? { 'content-length': length } : {}) };
  const asked = request({ host: '127.0.0.1', port: webPort, path: PATH, method: 'POST', headers });
  const answered = once(asked, 'response');
  asked.flushHeaders();
  for (const piece of pieces) {
    asked.write(piece);
    if (gapMs > 0) await new Promise((resolve) => setTimeout(resolve, gapMs));
  }
  asked.end();
  const [answer] = await answered;
  const body: Buffer[] = [];
  for await (const chunk of answer) body.push(chunk);
  return { status: answer.statusCode, headers: answer.headers, body: Buffer.concat(body) };
}

const encoded = (init: MessageInitShape<typeof ReportRequestSchema>) =>
  toBinary(ReportRequestSchema, create(ReportRequestSchema, init));
const seqOf = ({ body }: Answer) => fromBinary(ReportResponseSchema, body).lastReportSeq;

/** All of it that is the same each time. */
function comparable({ status, headers, body }: Answer) {
  const { date: _, connection: __, 'keep-alive': ___, 'transfer-encoding': ____, ...rest } = headers;
  return { status, headers: rest, body: body.toString('latin1') };
}

test('the answer is the one that Connect gives, whatever is reported', async () => {
  const on = await start();
  const node = await on.node();
  const fence = node.fence();
  const cases: Record<string, Uint8Array> = {
    heartbeat: encoded(fence),
    'an older session epoch': encoded({ ...fence, sessionEpoch: 0n }),
    'another relay': encoded({ ...fence, relayEpoch: 7n }),
    'a guessed session': encoded({ ...fence, sessionToken: 'guessed' }),
    'an empty report': new Uint8Array(),
    'half a field': Uint8Array.of(0x10),
    'more fields than are taken': new Uint8Array(60_000).fill(0x78).map((byte, at) => (at % 2 === 0 ? byte : 1)),
    'as many groups inside groups': new Uint8Array(400).fill(0x7b),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const [direct, whole] = [await post(on.relay.webPort, [bytes]), await post(on.relay.webPort, [bytes], false)];
    expect(comparable(direct), name).toEqual(comparable(whole));
  }
  // Connect calls this a fault of its own.
  const noText = await post(on.relay.webPort, [Uint8Array.of(0x0a, 1, 0xff)]);
  expect(comparable(noText)).toMatchObject({ status: 400, body: expect.stringContaining('"code":"invalid_argument"') });
});

test('a lie ends the session with the status that Connect gives', async () => {
  const on = await start();
  const answers: unknown[] = [];
  for (const direct of [true, false]) {
    const node = await on.node({ manual: true });
    const lie = encoded({ ...node.fence(), seq: 5n });
    answers.push(comparable(await post(on.relay.webPort, [lie], direct)));
    await node.until(() => node.streamError !== undefined);
  }
  expect(answers[0]).toMatchObject({ status: 400 });
  expect(answers[0]).toEqual(answers[1]);
});

test('tokens told so reach the client, each once, though a report comes twice and in pieces', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const { webPort } = on.relay;
  const whole = collect(on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens: 4 })));
  await node.until(() => node.jobs.length === 1);
  const { jobId } = node.jobs[0]!;
  const tokens = (offset: number, tokenIds: number[]) => ({
    jobId,
    event: { case: 'tokens' as const, value: { offset, tokenIds } },
  });
  const fence = node.fence();
  const first = encoded({ ...fence, seq: 1n, events: [tokens(0, [9]), tokens(1, [300])] });
  const bytewise = Array.from(first, (byte) => Uint8Array.of(byte));
  expect(seqOf(await post(webPort, bytewise, true, 1))).toBe(1n);
  expect(seqOf(await post(webPort, [first]))).toBe(1n);
  const value = { reason: Finished_Reason.LENGTH, completionTokens: 4 };
  const end = { jobId, event: { case: 'finished' as const, value } };
  expect(seqOf(await post(webPort, [encoded({ ...fence, seq: 2n, events: [tokens(2, [10, 11]), end] })]))).toBe(2n);
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual([9, 300, 10, 11]);
  expect(messages.at(-1)?.response).toMatchObject({ case: 'complete', value: { finishReason: 'length' } });
});

test('a body that stops on its way gets its status in time, and what it held is free again', async () => {
  const on = await start({ receiveMs: 300, receivingMaxBytes: 4_096 });
  const { webPort } = on.relay;
  const node = await on.node();
  for (let i = 0; i < 5; i++) {
    const socket = connect(webPort, '127.0.0.1');
    const head = `POST ${PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/proto\r\ncontent-length: 3000\r\n\r\n`;
    socket.write(head + 'x'.repeat(2_000));
    const [bytes] = await once(socket, 'data');
    expect(String(bytes)).toMatch(/^HTTP\/1\.1 504 .*"code":"deadline_exceeded"/s);
    socket.destroy();
  }
  // Over what may be received at a time.
  expect((await post(webPort, [new Uint8Array(5_000)])).status).toBe(429);
  expect((await post(webPort, [encoded(node.fence())])).status).toBe(200);
});
