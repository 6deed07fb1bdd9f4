import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { expect, test, vi } from 'vitest';
import { ResumeSchema } from '../contract/gen/node_relay_pb.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import type { ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();

test('a node of another model is refused, with both digests named', async () => {
  const on = await start();
  const refusal = on.node({ modelDigest: 'f'.repeat(64) });
  await expect(refusal).rejects.toThrow(
    `The relay serves model ${on.relay.model.digest}, the node holds ${'f'.repeat(64)}.`,
  );
  await expect(refusal).rejects.toMatchObject({ code: Code.FailedPrecondition });
});

test.each([
  [{ protocolVersion: 2 }, Code.FailedPrecondition, 'version 2'],
  [{ nodeId: 'short' }, Code.InvalidArgument, 'node_id'],
  [{ poolTokens: 0 }, Code.InvalidArgument, 'pool_tokens'],
  [{ maxRunning: 0 }, Code.InvalidArgument, 'max_running'],
  [{ precision: 0 }, Code.InvalidArgument, 'precision'],
  [{ precision: 9 }, Code.InvalidArgument, 'precision'],
  [{ kvType: 0 }, Code.InvalidArgument, 'kv_type'],
  [{ kvType: 9 }, Code.InvalidArgument, 'kv_type'],
  [{ layers: undefined }, Code.InvalidArgument, 'layers'],
  [{ layers: { from: 0, to: 0 } }, Code.InvalidArgument, 'layers'],
  [{ layers: { from: 0, to: 6 } }, Code.InvalidArgument, 'layers'],
  [{ layers: { from: 0, to: 4 } }, Code.Unimplemented, 'layers'],
  [{ layers: { from: 1, to: 5 } }, Code.Unimplemented, 'layers'],
])('an Attach with %j is refused', async (attach, code, named) => {
  const on = await start();
  const refusal = on.node({ attach: attach as object });
  await expect(refusal).rejects.toMatchObject({ code, rawMessage: expect.stringContaining(named) });
});

test('reports of an older epoch, of another relay or of no session get ABORTED', async () => {
  const on = await start();
  const node = await on.node();
  const old = node.fence();
  await node.reconnect();
  expect(node.welcome?.resumed).toBe(true);
  const refuse = (fence: Partial<ReturnType<ScriptedNode['fence']>>) =>
    expect(node.client.report({ ...node.fence(), ...fence })).rejects.toMatchObject({ code: Code.Aborted });
  await refuse({ sessionEpoch: old.sessionEpoch });
  await refuse({ relayEpoch: old.relayEpoch + 1n });
  await refuse({ sessionToken: 'nobody' });
  await expect(node.client.detach(old)).rejects.toMatchObject({ code: Code.Aborted });
  await expect(node.client.report(node.fence())).resolves.toMatchObject({ lastReportSeq: 0n });
});

test('a session of another relay is no more: attach afresh', async () => {
  const on = await start();
  const node = await on.node();
  const resume = { ...node.fence(), lastCommandSeq: 0n };
  const attach = async (other: Partial<typeof resume>) => {
    await on.node({ attach: { resume: create(ResumeSchema, { ...resume, ...other }) } });
  };
  await expect(attach({ relayEpoch: resume.relayEpoch + 1n })).rejects.toMatchObject({ code: Code.Aborted });
  await expect(attach({ sessionToken: 'guessed' })).rejects.toMatchObject({ code: Code.Aborted });
  await expect(attach({ lastCommandSeq: 5n })).rejects.toMatchObject({ code: Code.InvalidArgument });
  await node.detach();
  await expect(attach({})).rejects.toMatchObject({ code: Code.Aborted });
});

test('with fixed ranks, one node more is refused', async () => {
  const on = await start({ ranks: 1 });
  await on.node();
  await expect(on.node()).rejects.toMatchObject({ code: Code.ResourceExhausted });
});

test('a node that comes again under the same id takes its own place', async () => {
  const on = await start();
  const first = await on.node({ nodeId: 'the-same-node' });
  const second = await on.node({ nodeId: 'the-same-node' });
  await first.until(() => first.streamError !== undefined);
  expect(first.streamError?.code).toBe(Code.Aborted);
  expect(second.welcome?.rank).toBe(0);
});

test('a rank is kept for session and lease, and the lowest free one is given', async () => {
  const on = await start();
  const [first, second] = [await on.node(), await on.node()];
  expect([first.welcome?.rank, second.welcome?.rank]).toEqual([0, 1]);
  first.dropStream();
  expect((await on.node()).welcome?.rank).toBe(2);
  await first.reconnect();
  expect(first.welcome?.rank).toBe(0);
  await second.detach();
  expect((await on.node()).welcome?.rank).toBe(1);
});

test('a node that lied is not taken again for a while, and others are', async () => {
  const on = await start();
  const liar = await on.node({ nodeId: 'the-lying-node' });
  await expect(liar.client.report({ ...liar.fence(), seq: 2n })).rejects.toMatchObject({ code: Code.InvalidArgument });
  // A status after which a page tries again, later and later.
  await expect(on.node({ nodeId: 'the-lying-node' })).rejects.toMatchObject({
    code: Code.Unavailable,
    rawMessage: expect.stringMatching(/taken again in (59|60) s/),
  });
  expect((await on.node({ nodeId: 'another-node' })).welcome?.rank).toBe(0);
});
