import { connect as connectTcp } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ForkedRelay } from './testing/forked-relay.ts';
import { RawCall } from './testing/raw-http2.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 30_000 });

const GENERATE = '/sglang.grpc.scheduler.SglangScheduler/Generate';
const FRAMES = 400_000;
/** A leak of 450 bytes a frame would be some 170 MiB. */
const MAX_GROWTH_MIB = 96;

let relay: ForkedRelay;
beforeEach(async () => {
  relay = await ForkedRelay.start();
});
afterEach(() => relay.end());

/** The most memory that the relay has, beyond what it has now, until `done` settles. */
async function growthUntil(done: Promise<unknown>): Promise<number> {
  const before = (await relay.longestStall()).rssMiB;
  let peak = before;
  let over = false;
  void done.finally(() => {
    over = true;
  });
  do {
    await new Promise((resolve) => setTimeout(resolve, 20));
    peak = Math.max(peak, (await relay.longestStall()).rssMiB);
  } while (!over);
  await done;
  return peak - before;
}

test('a body of one-byte DATA frames is held in about its own size', async () => {
  const body = Buffer.alloc(5 + FRAMES, 65);
  body.writeUInt8(0, 0);
  body.writeUInt32BE(FRAMES, 1);
  const call = await RawCall.open(relay.grpcPort, GENERATE);
  const sent = call.flood(body).then(() => call.answer());
  expect(await growthUntil(sent)).toBeLessThan(MAX_GROWTH_MIB);
  call.close();
});

test('a body of one-byte chunks over HTTP/1.1 is held in about its own size', async () => {
  const socket = connectTcp(relay.webPort, '127.0.0.1');
  socket.write(
    'POST /shoal.relay.v1.NodeRelay/Report HTTP/1.1\r\nHost: 127.0.0.1\r\n' +
      'Content-Type: application/proto\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  const answer = new Promise<string>((resolve) => socket.once('data', (bytes) => resolve(bytes.toString('latin1'))));
  const send = async () => {
    const portion = Buffer.from('1\r\nA\r\n'.repeat(4_000));
    for (let sent = 0; sent < FRAMES; sent += 4_000) {
      if (!socket.write(portion)) await new Promise((resolve) => socket.once('drain', resolve));
    }
    socket.write('0\r\n\r\n');
    return answer;
  };
  expect(await growthUntil(send())).toBeLessThan(MAX_GROWTH_MIB);
  expect(await answer).toMatch(/^HTTP\/1\.1 400/);
  socket.destroy();
});
