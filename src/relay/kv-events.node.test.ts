import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { CacheRemovedSchema, CacheStoredSchema } from '../contract/gen/node_relay_pb.ts';
import { GetServerInfoRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { type KvEventBatch, SubscribeKvEventsRequestSchema } from '../contract/gen/smg_common_pb.ts';
import { KvEvents } from './kv-events.ts';
import { PrefixIndex } from './prefix-index.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { KvPicture } from './testing/kv-picture.ts';
import type { RelayBench } from './testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { subscribeKvEvents, getServerInfo } = SglangScheduler.method;
const start = benchPerTest();

const block = (...turns: number[]) => turns.flatMap((turn) => Array.from({ length: 16 }, () => turn));
const stored = (blocks: number[], tokenIds: number[], parent?: number) => ({
  event: { case: 'cacheStored' as const, value: { blocks, tokenIds, ...(parent === undefined ? {} : { parent }) } },
});
const removed = (...blocks: number[]) => ({ event: { case: 'cacheRemoved' as const, value: { blocks } } });

/** A stream, and the picture that a gateway makes of it. */
function subscribe(on: RelayBench, startSequenceNumber = 0n) {
  const picture = new KvPicture(startSequenceNumber);
  const batches: KvEventBatch[] = [];
  const request = create(SubscribeKvEventsRequestSchema, { startSequenceNumber });
  const stream = on.client.stream(subscribeKvEvents, request);
  const whole = collect(stream, 25_000);
  stream.on('data', (batch: KvEventBatch) => {
    batches.push(batch);
    picture.take(batch);
  });
  const shows = (...prefixes: number[][]) =>
    expect.poll(() => picture.prefixes, { timeout: 5_000 }).toEqual(prefixes.map((ids) => ids.join()).sort());
  return { picture, batches, stream, whole, shows };
}

test('what is cached comes first, then what changes, with its rank; a prefix is gone when no rank has it', async () => {
  const on = await start();
  const nodes = [await on.node(), await on.node()] as const;
  await nodes[0].tell(stored([4, 2], block(1, 2)));
  const { picture, batches, shows, stream, whole } = subscribe(on);
  await shows(block(1), block(1, 2));
  expect(batches[0]).toMatchObject({ sequenceNumber: 1n, events: [{ data: { case: 'cleared' } }] });
  expect(batches[0]?.dpRank).toBeUndefined();
  expect(batches[1]).toMatchObject({ sequenceNumber: 2n, dpRank: 0 });
  await nodes[1].tell(stored([0], block(1)), stored([1], block(3), 0));
  await shows(block(1), block(1, 2), block(1, 3));
  expect(batches.at(-1)?.dpRank).toBe(1);
  await nodes[0].tell(removed(2, 4));
  await shows(block(1), block(1, 3));
  // Lost without a word.
  nodes[1].kill();
  await nodes[1].client.detach({ ...nodes[1].fence(), reason: 'test' });
  await shows();
  const { activeRequests } = await on.client.unary(getServerInfo, create(GetServerInfoRequestSchema));
  expect(activeRequests).toBe(0);
  expect(Math.abs((batches[0]?.timestamp ?? 0) - Date.now() / 1000)).toBeLessThan(60);
  // One who comes back goes on from its own number, with all there is then.
  await nodes[0].tell(stored([7], block(9)));
  await shows(block(9));
  stream.cancel();
  expect((await whole).error?.code).toBe(status.CANCELLED);
  await nodes[0].tell(stored([8], block(8), 7));
  const again = subscribe(on, picture.lastSeq);
  await again.shows(block(9), block(9, 8));
  expect(again.batches[0]).toMatchObject({ events: [{ data: { case: 'cleared' } }] });
  again.stream.cancel();
  await again.whole;
});

test('every field of a batch: what is stored, below what, and what is gone', async () => {
  const on = await start();
  const node = await on.node();
  const request = create(SubscribeKvEventsRequestSchema, { loadRecordsBeforeFirstBatch: false });
  const stream = on.client.stream(subscribeKvEvents, request);
  const batches: KvEventBatch[] = [];
  const whole = collect(stream, 25_000);
  stream.on('data', (batch: KvEventBatch) => batches.push(batch));
  await expect.poll(() => batches.length, { timeout: 5_000 }).toBe(1);
  await node.tell(stored([0, 1], block(1, 2)), stored([2], block(3), 0), removed(2));
  await expect.poll(() => batches.length, { timeout: 5_000 }).toBe(4);
  const { events } = batches[1] as KvEventBatch;
  expect(events).toHaveLength(1);
  expect(events[0]?.eventId).toBe(2n);
  if (events[0]?.data.case !== 'stored') throw new Error('not stored');
  const { blocks, parentBlockHash } = events[0].data.value;
  expect(parentBlockHash).toBeUndefined();
  for (const [at, { blockHash, tokenIds, blockSize, loraId, cacheLevel }] of blocks.entries()) {
    expect(blockHash > 0n && blockHash < 2n ** 53n).toBe(true);
    expect([tokenIds, blockSize, loraId, cacheLevel]).toEqual([block(at + 1), 16, undefined, undefined]);
  }
  const below = batches[2]?.events[0]?.data;
  if (below?.case !== 'stored') throw new Error('not stored');
  expect(below.value.parentBlockHash).toBe(blocks[0]?.blockHash);
  const gone = batches[3]?.events[0]?.data;
  if (gone?.case !== 'removed') throw new Error('not removed');
  const { blockHashes, cacheLevel } = gone.value;
  expect([blockHashes, cacheLevel]).toEqual([[below.value.blocks[0]?.blockHash], undefined]);
  stream.cancel();
  await whole;
});

test('streams are bounded in number, and go when their readers go; numbers do not run over', async () => {
  const on = await start();
  const open = Array.from({ length: 64 }, () => subscribe(on));
  await Promise.all(open.map(({ stream }) => new Promise((resolve) => stream.once('data', resolve))));
  const { error } = await subscribe(on).whole;
  expect(error).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  open[0]?.stream.cancel();
  await open[0]?.whole;
  await expect
    .poll(async () => {
      const { stream } = subscribe(on);
      return Promise.race([
        new Promise((resolve) => stream.once('data', () => resolve('open'))),
        new Promise((resolve) => stream.once('error', () => resolve('refused'))),
      ]);
    })
    .toBe('open');
  const over = await subscribe(on, 2n ** 63n).whole;
  expect(over.error).toMatchObject({ code: status.INVALID_ARGUMENT });
  expect(over.error?.details).toContain('start_sequence_number');
});

test('however slowly it is read, and whatever comes meanwhile, a reader ends with what is there', async () => {
  const act = fc.record({
    node: fc.nat(2),
    number: fc.nat(7),
    parent: fc.option(fc.nat(7)),
    turn: fc.nat(2),
    what: fc.constantFrom('store', 'store', 'store', 'remove', 'clear', 'read', 'read'),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 40 }), fc.integer({ min: 1, max: 12 }), async (acts, most) => {
      const index = new PrefixIndex();
      const nodes = [0, 1, 2].map((rank) => index.open(rank, 128, 10));
      const left = new AbortController();
      const stream = new KvEvents(index, most).subscribe(5n, left.signal);
      const picture = new KvPicture(5n);
      let reading: Promise<void> | undefined;
      /** At most one read is under way. */
      const read = (): Promise<void> => {
        reading ??= stream.next().then(({ value }) => {
          reading = undefined;
          if (value) picture.take(value);
        });
        return reading;
      };
      await read();
      /** Whether a child of it is held: a node's cache lets leaves go first. */
      const parents = nodes.map(() => new Map<number, number | undefined>());
      for (const { node: at, number, parent, turn, what } of acts) {
        const [node, held] = [nodes[at]!, parents[at]!];
        const isParent = [...held.values()].includes(number);
        if (what === 'clear') {
          node.clear();
          held.clear();
        } else if (what === 'remove' && held.has(number) && !isParent) {
          node.removed(create(CacheRemovedSchema, { blocks: [number] }));
          held.delete(number);
        } else if (what === 'store' && !held.has(number) && (parent === null || held.has(parent))) {
          const above = parent ?? undefined;
          node.stored(
            create(CacheStoredSchema, {
              blocks: [number],
              tokenIds: block(turn),
              ...(above === undefined ? {} : { parent: above }),
            }),
          );
          held.set(number, above);
        } else if (what === 'read') await Promise.race([read(), Promise.resolve()]);
      }
      // Something always comes: else the last read would wait for ever.
      const last = index.open(3, 128, 10);
      last.stored(create(CacheStoredSchema, { blocks: [0], tokenIds: block(9) }));
      while (!picture.prefixes.includes(block(9).join())) await read();
      left.abort();
      await stream.return(undefined);
      const all = new Set([...nodes, last].flatMap((node) => [...node.cached].map(({ hash }) => BigInt(hash))));
      expect(new Set(picture.held.keys())).toEqual(all);
      expect(index.listeners.size).toBe(0);
    }),
  );
});
