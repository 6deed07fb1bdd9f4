import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { AdapterDoneSchema } from '../../contract/gen/node_relay_pb.ts';
import { LinkAdapters } from './link-adapters.ts';

const ADAPTER = { id: 'a', name: 'a', path: '/a', pinned: false, rank: 4, digest: 'd', files: [] };

function open() {
  const sent: { readonly case: string | undefined; readonly requestId: bigint }[] = [];
  const adapters = new LinkAdapters(
    (command) => void sent.push({ case: command.case, requestId: (command.value as { requestId: bigint }).requestId }),
    () => {},
  );
  const done = (at: number, code = 0) =>
    adapters.done(create(AdapterDoneSchema, { requestId: sent[at]!.requestId, code }));
  return { adapters, sent, done };
}

test('an adapter that it was asked to forget meanwhile is none that it holds, however late it says that it loaded it', async () => {
  const { adapters, done } = open();
  const loading = adapters.load(ADAPTER);
  const unloading = adapters.unload('a');
  done(0);
  done(1);
  expect([(await loading)?.code, (await unloading)?.code]).toEqual([0, 0]);
  expect(adapters.holds('a')).toBe(false);
  const again = adapters.load({ ...ADAPTER });
  expect(adapters.holds('a')).toBe(false);
  done(2);
  await again;
  expect(adapters.holds('a')).toBe(true);
});

test('once its session is over nothing is sent any more, and nobody waits for an answer', async () => {
  const { adapters, sent } = open();
  const loading = adapters.load(ADAPTER);
  adapters.clear();
  expect(await loading).toBeUndefined();
  expect([await adapters.load(ADAPTER), await adapters.unload('a')]).toEqual([undefined, undefined]);
  expect(sent.length).toBe(1);
});
