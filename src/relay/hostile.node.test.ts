import { connect as connectTcp } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { ReportRequestSchema } from '../contract/gen/node_relay_pb.ts';
import {
  GenerateRequestSchema,
  HealthCheckRequestSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { ForkedRelay } from './testing/forked-relay.ts';
import { collect, GrpcClient } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const GENERATE = '/sglang.grpc.scheduler.SglangScheduler/Generate';
const MIB = 1024 * 1024;
const STALL_MS = 200;

let relay: ForkedRelay;
let client: GrpcClient;
let node: ScriptedNode;
beforeAll(async () => {
  relay = await ForkedRelay.start();
  client = new GrpcClient(relay.grpcPort);
  node = await ScriptedNode.attach({ webPort: relay.webPort, modelDigest: relay.digest });
  await collect(client.stream(SglangScheduler.method.generate, requestOf([1, 2], { maxNewTokens: 50 })));
});
afterAll(() => {
  node.kill();
  client.close();
  relay.end();
});
/** Whatever a test sent, the relay lives and answers. */
afterEach(async () => {
  const answer = await client.unary(SglangScheduler.method.healthCheck, create(HealthCheckRequestSchema));
  expect(answer.healthy).toBe(true);
  expect(relay.alive).toBe(true);
});

function field(number: number, body: Uint8Array): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(body.length), body]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    bytes.push(rest >= 128 ? (rest % 128) + 128 : rest);
    if (rest < 128) return Buffer.from(bytes);
  }
}

function repeat(unit: Uint8Array, bytes: number): Buffer {
  return Buffer.alloc(Math.floor(bytes / unit.length) * unit.length, unit);
}

test('the meter of stalls sees one', async () => {
  await relay.longestStall();
  await relay.stall(250);
  expect((await relay.longestStall()).stallMs).toBeGreaterThan(STALL_MS);
});

test('115 MiB of ids get their status', async () => {
  const ids = field(2, field(2, Buffer.alloc(115 * MIB, 5)));
  const error = await client.refusal(GENERATE, ids);
  expect(error.code).toBe(status.RESOURCE_EXHAUSTED);
  expect((await relay.longestStall()).stallMs).toBeLessThan(STALL_MS);
});

/** Bodies just under the size limit, each made to cost as much as it can. */
const bodies: [string, () => Buffer<ArrayBufferLike>, number][] = [
  ['30 MiB of packed ids', () => field(2, field(2, Buffer.alloc(30 * MIB, 5))), status.INVALID_ARGUMENT],
  ['15 M unpacked ids', () => field(2, repeat(Buffer.from([0x10, 5]), 30 * MIB)), status.INVALID_ARGUMENT],
  [
    'ids in 30 MiB of single inputs',
    () => repeat(field(2, field(2, Buffer.from([5]))), 30 * MIB),
    status.INVALID_ARGUMENT,
  ],
  ['a varint without an end', () => field(2, field(2, Buffer.alloc(30 * MIB, 0x80))), status.INVALID_ARGUMENT],
  ['empty stop strings', () => field(4, repeat(Buffer.from([9 * 8 + 2, 0]), 30 * MIB)), status.INVALID_ARGUMENT],
  [
    'map entries',
    () => field(4, repeat(field(22, field(1, Buffer.from('7'))).subarray(1), 30 * MIB)),
    status.INVALID_ARGUMENT,
  ],
  [
    'a long text',
    () => {
      const text = field(1, Buffer.alloc(30 * MIB, 65));
      // min_p of -1: everything else is as it should be.
      return Buffer.concat([
        field(2, Buffer.concat([text, field(2, varint(5))])),
        field(4, Buffer.from('250000 80bf'.replace(' ', ''), 'hex')),
      ]);
    },
    status.INVALID_ARGUMENT,
  ],
  // Connect's own status for what its decoder rejects.
  ['a text that is no UTF-8', () => field(2, field(1, Buffer.alloc(30 * MIB, 0xff))), status.INTERNAL],
  ['embeddings', () => field(14, Buffer.alloc(28 * MIB)), status.INVALID_ARGUMENT],
  ['unknown fields', () => repeat(Buffer.from([0xf8, 0x07, 1]), 30 * MIB), status.INVALID_ARGUMENT],
  ['unknown groups, nested', () => repeat(Buffer.from([0xfb, 0x07]), 30 * MIB), status.INVALID_ARGUMENT],
  ['image bytes', () => field(3, field(5, Buffer.alloc(30 * MIB))), status.INVALID_ARGUMENT],
];

test.each(bodies)(
  '%s: a status, and no stall',
  async (_, body, code) => {
    const bytes = body();
    await relay.longestStall();
    const error = await client.refusal(GENERATE, bytes);
    expect([error.code, error.details]).toEqual([code, expect.any(String)]);
    const { stallMs } = await relay.longestStall();
    expect(stallMs).toBeLessThan(STALL_MS);
  },
  30_000,
);

test('structs nested deep or wide', async () => {
  let deep: Buffer = Buffer.alloc(0);
  for (let level = 0; level < 2000; level++)
    deep = field(1, Buffer.concat([field(1, Buffer.from('k')), field(2, field(5, deep))]));
  const wide = repeat(
    field(1, Buffer.concat([field(1, Buffer.from('k')), field(2, Buffer.from([0x20, 1]))])),
    30 * MIB,
  );
  await relay.longestStall();
  for (const struct of [deep, wide]) {
    const error = await client.refusal(GENERATE, field(4, field(23, struct)));
    expect(error.code).toBe(status.INVALID_ARGUMENT);
  }
  expect((await relay.longestStall()).stallMs).toBeLessThan(STALL_MS);
});

/** JSON over Connect, on the web port and on the gRPC port's handlers alike. */
test.each([
  ['ids', () => `{"tokenized":{"inputIds":[${'5,'.repeat(2_000_000)}5]}}`],
  ['nesting', () => `{"samplingParams":{"customParams":${'{"a":'.repeat(600_000)}1${'}'.repeat(600_000)}}}`],
  ['text', () => `{"tokenized":{"originalText":"${'\\u0041'.repeat(600_000)}"}}`],
  ['base64', () => `{"mmInputs":{"imageData":["${'A'.repeat(4_000_000)}"]}}`],
  ['keys', () => `{"samplingParams":{"logitBias":{${Array.from({ length: 300_000 }, (_, k) => `"${k}":1`).join()}}}}`],
])(
  'JSON %s: an error, and no stall',
  async (_, text) => {
    const json = Buffer.from(text());
    await relay.longestStall();
    // GetLoads is unary, where a Connect body has no envelope; unknown keys are walked over there.
    const envelope = Buffer.alloc(5);
    envelope.writeUInt32BE(json.length, 1);
    const answer = await fetch(`http://127.0.0.1:${relay.webPort}${GENERATE}`, {
      method: 'POST',
      headers: { 'content-type': 'application/connect+json' },
      body: Buffer.concat([envelope, json]),
    });
    expect(await answer.text()).toContain('"code":"invalid_argument"');
    const unary = await fetch(`http://127.0.0.1:${relay.webPort}/sglang.grpc.scheduler.SglangScheduler/GetLoads`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: json,
    });
    await unary.arrayBuffer();
    expect([200, 400]).toContain(unary.status);
    expect((await relay.longestStall()).stallMs).toBeLessThan(STALL_MS);
  },
  30_000,
);

test('the web port refuses what is too large, without reading it all', async () => {
  const answer = await fetch(`http://127.0.0.1:${relay.webPort}/shoal.relay.v1.NodeRelay/Report`, {
    method: 'POST',
    headers: { 'content-type': 'application/proto' },
    body: Buffer.alloc(40 * MIB),
  });
  expect(answer.status).toBe(429);
  expect(await answer.json()).toMatchObject({ code: 'resource_exhausted' });
});

test('a report of as many events as fit costs no stall', async () => {
  const events = Array.from({ length: 16_000 }, (_, at) => ({
    jobId: BigInt(at),
    event: { case: 'tokens' as const, value: { tokenIds: [1] } },
  }));
  const body = toBinary(ReportRequestSchema, create(ReportRequestSchema, { sessionToken: 'x', seq: 1n, events }));
  await relay.longestStall();
  const answer = await fetch(`http://127.0.0.1:${relay.webPort}/shoal.relay.v1.NodeRelay/Report`, {
    method: 'POST',
    headers: { 'content-type': 'application/proto' },
    body: Buffer.from(body),
  });
  expect(await answer.json()).toMatchObject({ code: 'aborted' });
  expect((await relay.longestStall()).stallMs).toBeLessThan(STALL_MS);
});

test('bytes being received are bounded over all streams', async () => {
  // Six half-sent requests of 30 MiB each would be 180 MiB.
  const before = (await relay.longestStall()).rssMiB;
  const errors = await Promise.all(
    Array.from({ length: 6 }, () => client.refusal(GENERATE, field(2, field(1, Buffer.alloc(30 * MIB, 65))))),
  );
  expect(errors.map((error) => error.code)).toEqual(
    expect.arrayContaining([expect.toBeOneOf([status.RESOURCE_EXHAUSTED, status.INVALID_ARGUMENT])]),
  );
  expect((await relay.longestStall()).rssMiB - before).toBeLessThan(600);
});

test('HTTP/1.1 on the gRPC port gets no 2xx', async () => {
  const answer = await new Promise<string>((resolve) => {
    let text = '';
    const socket = connectTcp(relay.grpcPort, '127.0.0.1', () => {
      socket.write('GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    });
    socket.setTimeout(3_000, () => socket.destroy());
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
  expect(answer).not.toMatch(/^HTTP\/1\.1 2/);
});

test('unknown services fail at once', async () => {
  const started = performance.now();
  for (const path of ['/sglang.grpc.scheduler.SglangEncoder/HealthCheck', '/vllm.grpc.engine.VllmEngine/HealthCheck']) {
    expect((await client.refusal(path, Buffer.alloc(0))).code).toBe(status.UNIMPLEMENTED);
  }
  expect(performance.now() - started).toBeLessThan(1_000);
});

test('arbitrary bytes get a status', async () => {
  for (const bytes of [
    Buffer.from([0xff]),
    Buffer.from([0x12, 0x7f, 1]),
    Buffer.from([0x0b]),
    Buffer.alloc(64, 0xff),
  ]) {
    expect((await client.refusal(GENERATE, bytes)).code).toBe(status.INVALID_ARGUMENT);
  }
  // The same, where it is well-formed: an empty request.
  const empty = Buffer.from(toBinary(GenerateRequestSchema, create(GenerateRequestSchema)));
  expect((await client.refusal(GENERATE, empty)).details).toBe('tokenized must be set.');
});
