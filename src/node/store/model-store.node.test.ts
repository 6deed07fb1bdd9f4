import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Manifest } from '../../checkpoint/manifest.ts';
import { StoreError } from './byte-file.ts';
import type { TurnNews } from './download-turn.ts';
import { ModelStore } from './model-store.ts';
import type { StoreProgress } from './store-facts.ts';
import type { TabChannel } from './store-locks.ts';
import type { StoredModel, StoreListener } from './stored-model.ts';
import { MemoryDisk, MemoryFolder } from './testing/memory-folder.ts';
import { MemoryLocks } from './testing/memory-locks.ts';
import { MemoryOrigin, manifestOf } from './testing/memory-origin.node.ts';

const PIECE = 1_000;
const contents = { weights: new Uint8Array(5_500).map((_, i) => (i * 7) % 251), config: new Uint8Array(30).fill(9) };
const small = manifestOf('small', contents, PIECE);
const digestOf = (letter: string) => letter.repeat(64);

let disk: MemoryDisk;
let locks: MemoryLocks;
let clock: number;
let quota: number;
let notices: string[];
let progress: StoreProgress[];
let troubles: (string | undefined)[];
const listener: StoreListener = {
  onNotice: (notice) => void notices.push(notice),
  onProgress: (one) => void progress.push(one),
  onTrouble: (trouble) => void troubles.push(trouble),
};

beforeEach(() => {
  disk = new MemoryDisk();
  locks = new MemoryLocks();
  clock = 1;
  quota = 1e9;
  notices = [];
  progress = [];
  troubles = [];
});

const channel = (name: string) => new BroadcastChannel(name) as unknown as TabChannel<TurnNews>;

/** The store as a tab sees it; tabs share disk and locks. */
function tab(shares = true): ModelStore {
  return new ModelStore({
    folder: new MemoryFolder(disk, shares),
    locks,
    channel,
    room: async () => ({ quota, usage: disk.bytes }),
    now: () => clock++,
  });
}

async function open(
  store: ModelStore,
  digest: string,
  { manifest = small, origin = new MemoryOrigin(contents) }: { manifest?: Manifest; origin?: MemoryOrigin } = {},
): Promise<StoredModel> {
  const { signal } = new AbortController();
  return store.open(manifest, digest, { origin: () => origin, signal, listener });
}

async function readWhole(model: StoredModel): Promise<void> {
  for (const [name, bytes] of Object.entries(contents)) {
    expect(Buffer.from(await model.open(name)!.read(0, bytes.byteLength)).equals(bytes)).toBe(true);
  }
}

/** Another model with files of its own. */
function other(name: string, size: number) {
  const files = { weights: new Uint8Array(size).map((_, i) => (i * 3 + name.charCodeAt(0)) % 249) };
  return { manifest: manifestOf(name, files, PIECE), origin: new MemoryOrigin(files) };
}

async function load(store: ModelStore, digest: string, made = other(digest[0]!, 3_000)): Promise<void> {
  const model = await open(store, digest, made);
  await model.open('weights')!.read(0, 3_000);
  model.release();
}

describe('one download for several tabs', () => {
  test('the second waits, follows, and reads what came', async () => {
    const origin = Object.assign(new MemoryOrigin(contents), { left: 2_500 });
    const first = await open(tab(), digestOf('a'), { origin });
    await vi.waitFor(() => expect(origin.left).toBe(0));
    const none = new MemoryOrigin({});
    const second = open(tab(), digestOf('a'), { origin: none });
    await vi.waitFor(() => expect(progress.some(({ byOtherTab }) => byOtherTab)).toBe(true));
    origin.left = Number.POSITIVE_INFINITY;
    await readWhole(first);
    await readWhole(await second);
    expect(none.asked).toEqual([]);
    expect(origin.given).toBe(5_530);
    first.release();
    (await second).release();
    expect([...(await locks.held())]).toEqual([]);
  });

  test('goes on at another when the first is closed', async () => {
    const origin = Object.assign(new MemoryOrigin(contents), { left: 2_500 });
    const first = await open(tab(), digestOf('a'), { origin });
    await vi.waitFor(() => expect(origin.left).toBe(0));
    const later = new MemoryOrigin(contents);
    const second = open(tab(), digestOf('a'), { origin: later });
    first.release();
    await readWhole(await second);
    expect(later.given).toBe(5_530 - 2_500);
    (await second).release();
  });

  test('where a browser opens a file once, a tab waits until the other has read it', async () => {
    const folder = new MemoryFolder(disk, false);
    const parts = { folder, locks, channel, room: async () => ({ quota, usage: disk.bytes }), now: () => clock++ };
    const first = await open(new ModelStore(parts), digestOf('a'));
    const second = open(new ModelStore(parts), digestOf('a'));
    await readWhole(first);
    first.close();
    await readWhole(await second);
    (await second).close();
  });
});

describe('what is kept', () => {
  test('is listed, and deleted unless it is in use; files of two models stay for the other', async () => {
    const store = tab();
    const model = await open(store, digestOf('a'));
    await readWhole(model);
    const twin = await open(store, digestOf('b'), { manifest: { ...small, name: 'twin', quantisation: 'q8' } });
    await readWhole(twin);
    twin.release();
    expect(await store.list()).toMatchObject([
      { name: 'twin', digest: digestOf('b'), storedBytes: 5_530, totalBytes: 5_530, usedAt: 2, inUse: false },
      { name: 'small', usedAt: 1, inUse: true },
    ]);
    const { signal } = new AbortController();
    await expect(store.delete(digestOf('a'), signal)).rejects.toThrow('a tab of this browser uses the model');
    await store.delete(digestOf('b'), signal);
    expect((await store.list()).map(({ name, storedBytes }) => [name, storedBytes])).toEqual([['small', 5_530]]);
    model.release();
    await store.delete(digestOf('a'), signal);
    expect(disk.files.size).toBe(0);
  });

  test('is deleted where another needs the room, the least recently used first, and nothing in use', async () => {
    const store = tab();
    const busy = other('x', 3_000);
    const inUse = await open(store, digestOf('0'), busy);
    await inUse.open('weights')!.read(0, 3_000);
    for (const letter of ['a', 'b', 'c']) await load(store, digestOf(letter));
    await load(store, digestOf('a'));
    quota = disk.bytes + (1 << 20) + 4_000;
    const model = await open(store, digestOf('d'));
    await readWhole(model);
    expect(notices).toEqual(["b was deleted from this browser's store, to make room for small"]);
    expect((await store.list()).map(({ name }) => name).sort()).toEqual(['a', 'c', 'small', 'x']);
  });

  test('of a file that was cut is what came of it, however long the file is by then', async () => {
    const store = tab();
    const origin = Object.assign(new MemoryOrigin(contents), { left: 1_700 });
    const model = await open(store, digestOf('a'), { origin });
    await vi.waitFor(() => expect(origin.left).toBe(0));
    model.release();
    // The loader asks for tensors in an order of its own: the last piece may have come, and those before it not.
    const [data, map] = ['data', 'map'].map((kind) => `${small.files[0]!.sha256}.${PIECE}.${kind}`);
    const cut = new Uint8Array(5_500);
    cut.set(disk.files.get(data!)!);
    disk.files.set(data!, cut);
    expect(disk.files.get(map!)!.byteLength).toBe(8 + 6);
    expect(await store.storedBytes(small)).toBe(1_700);
    expect(await store.list()).toMatchObject([{ name: 'small', storedBytes: 1_700, totalBytes: 5_530 }]);
  });

  test('waits 20 s at most for a tab that hangs with the store', async () => {
    const never = new AbortController().signal;
    for (const [lock, what] of [
      ['shoal-models', 'adds or deletes models'],
      [`shoal-model-${digestOf('a')}`, 'deletes this model'],
    ] as const) {
      const hung = await locks.take(lock, 'exclusive', never);
      vi.useFakeTimers();
      try {
        const waits = expect(open(tab(), digestOf('a'))).rejects.toThrow(
          `another tab ${what}, and hasn't ended for 20 s`,
        );
        await vi.advanceTimersByTimeAsync(20_000);
        await waits;
      } finally {
        vi.useRealTimers();
        hung.release();
      }
      expect([...(await locks.held())]).toEqual([]);
    }
  });

  test('lets go of a file whose map can’t be read', async () => {
    const folder = new MemoryFolder(disk, false);
    const closed: string[] = [];
    const open_ = folder.open.bind(folder);
    folder.open = async (name) => {
      const file = await open_(name);
      const close = () => {
        closed.push(name.replace(/.*\./, ''));
        file.close();
      };
      const size = () => {
        throw new StoreError('the disk is broken');
      };
      return { ...file, close, size: name.endsWith('.map') ? size : file.size };
    };
    const store = new ModelStore({
      folder,
      locks,
      channel,
      room: async () => ({ quota, usage: 0 }),
      now: () => clock++,
    });
    await expect(open(store, digestOf('a'))).rejects.toThrow('the disk is broken');
    expect(closed).toEqual(['map', 'data']);
  });

  test('is refused with the sizes where there is no room for it', async () => {
    const store = tab();
    quota = (1 << 20) + 4_000;
    const why = 'small needs 0.0 MB more, and this browser lets this site keep 1.1 MB more (1.1 MB in all)';
    expect(await store.refusal(small)).toBe(why);
    await expect(open(store, digestOf('a'))).rejects.toThrow(why);
    expect([...(await locks.held())]).toEqual([]);
    quota = 1e9;
    expect(await store.refusal(small)).toBeUndefined();
  });

  test('makes room when the disk is full though the browser told of more', async () => {
    const store = tab();
    await load(store, digestOf('a'));
    disk.capacity = disk.bytes + 3_000;
    const model = await open(store, digestOf('b'));
    await readWhole(model);
    expect(notices).toEqual(["a was deleted from this browser's store, to make room for small"]);
    disk.capacity = disk.bytes + 1_200;
    const larger = other('larger', 3_000);
    const partly = await open(store, digestOf('c'), larger);
    await partly.open('weights')!.read(0, 3_000);
    expect(notices.at(-1)).toMatch(/no more room for this site: .* of larger's 0\.0 MB are kept, the rest comes again/);
  });

  test('outlives broken records, and what a closed tab left behind is cleaned up', async () => {
    const store = tab();
    await load(store, digestOf('a'));
    disk.files.set(`${digestOf('e')}.model`, new TextEncoder().encode('{"na'));
    disk.files.set(`${'1'.repeat(64)}.1000.data`, new Uint8Array(10));
    expect((await store.list()).map(({ name }) => name)).toEqual(['a']);
    (await open(store, digestOf('b'))).release();
    expect([...disk.files.keys()].filter((name) => /^(e{64}|1{64})/.test(name))).toEqual([]);
  });
});
