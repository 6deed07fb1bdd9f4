import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Manifest } from '../../checkpoint/manifest.ts';
import { dataName, mapName } from './model-record.ts';
import { PieceDownload } from './piece-download.ts';
import { PieceFile } from './piece-file.ts';
import { StoredSource } from './stored-source.ts';
import { MemoryDisk, MemoryFolder } from './testing/memory-folder.ts';
import { MemoryOrigin, manifestOf } from './testing/memory-origin.node.ts';

const PIECE = 1_000;
const quiet = { onBytes: () => {}, onFull: async () => false };

function bytesOf(length: number, seed: number): Uint8Array<ArrayBuffer> {
  let state = seed + 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  });
}

/** The files as a tab that has just been opened finds them. */
async function openFiles(manifest: Manifest, disk: MemoryDisk): Promise<PieceFile[]> {
  const folder = new MemoryFolder(disk);
  const files: PieceFile[] = [];
  for (const file of manifest.files) {
    const data = await folder.open(dataName(file, manifest.pieceBytes));
    files.push(new PieceFile(file, manifest.pieceBytes, data, await folder.open(mapName(file, manifest.pieceBytes))));
  }
  return files;
}

/** What readers get of all files, and what was found broken on the way. */
async function readAll(files: readonly PieceFile[], download: PieceDownload) {
  const broken: string[] = [];
  const onBroken = ({ file }: PieceFile, index: number) => void broken.push(`${file.name} ${index}`);
  const bytes = await Promise.all(
    files.map((file) => new StoredSource(file, download, onBroken).read(0, file.file.size)),
  );
  return { bytes, broken };
}

/** How a tab ends: its network after so many bytes, its power after so many written ones; bits that rot afterwards. */
const tabs = fc.array(
  fc.record({
    network: fc.nat(9_000),
    power: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(9_000)),
    rot: fc.array(fc.record({ file: fc.nat(), at: fc.nat() }), { maxLength: 2 }),
  }),
  { maxLength: 6 },
);

test('whatever is cut where, all comes as it should be, and no more than the last stretch of a cut comes again', async () => {
  const cases = fc.record({
    sizes: fc.array(fc.nat(6_500), { minLength: 1, maxLength: 3 }),
    stretch: fc.integer({ min: 1, max: 1_700 }),
    writeBytes: fc.integer({ min: 1, max: 1_200 }),
    tabs,
  });
  const run = async ({ sizes, stretch, writeBytes, tabs }: typeof cases extends fc.Arbitrary<infer T> ? T : never) => {
    const contents = Object.fromEntries(sizes.map((size, i) => [`file-${i}`, bytesOf(size, i)]));
    const manifest = manifestOf('m', contents, PIECE);
    const disk = new MemoryDisk();
    let [given, rotten] = [0, 0];
    for (const { network, power, rot } of tabs) {
      const origin = Object.assign(new MemoryOrigin(contents), { stretch, left: network });
      disk.left = power;
      const files = await openFiles(manifest, disk).catch(() => []);
      await new PieceDownload(files, origin, quiet, writeBytes).run().catch(() => {});
      disk.left = Number.POSITIVE_INFINITY;
      given += origin.given;
      const names = [...disk.files.keys()];
      for (const { file, at } of rot) {
        const bytes = disk.files.get(names[file % Math.max(names.length, 1)] ?? '');
        if (!bytes?.byteLength) continue;
        bytes[at % bytes.byteLength]! ^= 1 << (at % 8);
        rotten++;
      }
    }
    const origin = Object.assign(new MemoryOrigin(contents), { stretch });
    const files = await openFiles(manifest, disk);
    const download = new PieceDownload(files, origin, quiet, writeBytes);
    const { bytes } = await readAll(files, download);
    await download.run();
    for (const [i, one] of bytes.entries()) expect(Buffer.from(one).equals(contents[`file-${i}`]!)).toBe(true);
    expect(files.every(({ whole }) => whole)).toBe(true);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    // A bit of a map's header or length may cost the piece that was begun beside its own.
    expect(given + origin.given).toBeLessThanOrEqual(total + tabs.length * (writeBytes + stretch) + rotten * 2 * PIECE);
    // Now all is there, and nothing is asked for.
    const later = new MemoryOrigin(contents);
    const again = await openFiles(manifest, disk);
    await readAll(again, new PieceDownload(again, later, quiet));
    expect(later.asked).toEqual([]);
  };
  await fc.assert(fc.asyncProperty(cases, run), { numRuns: process.env.SHOAL_LONG === '1' ? 5_000 : 150 });
});

test('a flipped byte is found when its piece is read, and that piece alone comes again', async () => {
  const contents = { weights: bytesOf(7_300, 1) };
  const manifest = manifestOf('m', contents, PIECE);
  const disk = new MemoryDisk();
  const files = await openFiles(manifest, disk);
  await new PieceDownload(files, new MemoryOrigin(contents), quiet).run();
  disk.files.get(dataName(manifest.files[0]!, PIECE))![3_456]! ^= 16;
  const again = await openFiles(manifest, disk);
  const origin = new MemoryOrigin(contents);
  const { bytes, broken } = await readAll(again, new PieceDownload(again, origin, quiet));
  expect(Buffer.from(bytes[0]!).equals(contents.weights)).toBe(true);
  expect([broken, origin.asked]).toEqual([['weights 3'], ['weights 3000-4000']]);
});

test('what is waited for comes before the rest, in one request at a time', async () => {
  const contents = { a: bytesOf(40_000, 1), b: bytesOf(5_000, 2) };
  const manifest = manifestOf('m', contents, PIECE);
  const files = await openFiles(manifest, new MemoryDisk());
  const origin = new MemoryOrigin(contents);
  const download = new PieceDownload(files, origin, quiet);
  await download.want(files[1]!, 3);
  expect(origin.asked).toEqual(['b 3000-5000']);
  await download.run();
  expect(origin.asked).toEqual(['b 3000-5000', 'a 0-40000', 'b 0-3000']);
});

test('a place that gives other bytes is left; where there is no other, the piece is named', async () => {
  const contents = { weights: bytesOf(4_000, 1) };
  const manifest = manifestOf('m', contents, PIECE);
  const wrong = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte ^ 1);
  const origin = Object.assign(new MemoryOrigin(contents), { spoil: wrong, others: 1 });
  const distrust = origin.distrust.bind(origin);
  origin.distrust = (why) => {
    origin.spoil = (bytes) => bytes;
    return distrust(why);
  };
  const files = await openFiles(manifest, new MemoryDisk());
  await new PieceDownload(files, origin, quiet).run();
  expect(files[0]!.whole).toBe(true);
  expect(origin.distrusted).toHaveLength(1);
  const alone = Object.assign(new MemoryOrigin(contents), { spoil: wrong });
  const empty = await openFiles(manifest, new MemoryDisk());
  const why = "memory:weights: the SHA-256 of bytes 0 to 1000 is not the manifest's";
  await expect(new PieceDownload(empty, alone, quiet).run()).rejects.toThrow(why);
  expect(empty[0]!.storedBytes).toBe(0);
});

test('what finds no room is read all the same, and room that is made is used', async () => {
  const contents = { weights: bytesOf(4_000, 1) };
  const manifest = manifestOf('m', contents, PIECE);
  for (const more of [0, 1_000, 9_000]) {
    const disk = Object.assign(new MemoryDisk(), { capacity: 2_500 });
    const files = await openFiles(manifest, disk);
    const origin = new MemoryOrigin(contents);
    let asked = 0;
    const onFull = async () => {
      disk.capacity += more;
      return asked++ === 0 && more > 0;
    };
    const download = new PieceDownload(files, origin, { onBytes: () => {}, onFull });
    const { bytes, broken } = await readAll(files, download);
    expect(Buffer.from(bytes[0]!).equals(contents.weights)).toBe(true);
    expect(broken).toEqual([]);
    // The piece that found no room had come.
    expect(origin.given).toBeLessThanOrEqual(4_000 + 2 * PIECE);
    expect(files[0]!.storedBytes + download.unkeptBytes).toBeGreaterThanOrEqual(4_000);
    expect(asked).toBe(more === 9_000 ? 1 : more === 0 ? 1 : 2);
  }
});

test('more bytes than a piece without room has are told with the file’s name', async () => {
  const contents = { weights: bytesOf(1_000, 1) };
  const files = await openFiles(manifestOf('m', contents, PIECE), Object.assign(new MemoryDisk(), { capacity: 0 }));
  const origin = Object.assign(new MemoryOrigin(contents), {
    spoil: (bytes: Uint8Array) => new Uint8Array([...bytes, 1]),
  });
  await expect(readAll(files, new PieceDownload(files, origin, quiet))).rejects.toThrow(
    'memory:weights: more bytes came than were asked for',
  );
});

test('a disk that keeps nothing is told as the store’s failure', async () => {
  const contents = { weights: bytesOf(4_000, 1) };
  const manifest = manifestOf('m', contents, PIECE);
  const forgetful = new MemoryDisk();
  const write = forgetful.write.bind(forgetful);
  forgetful.write = (name, bytes, at) =>
    write(name, name.endsWith('.data') ? new Uint8Array(bytes.byteLength) : bytes, at);
  const others = await openFiles(manifest, forgetful);
  await expect(readAll(others, new PieceDownload(others, new MemoryOrigin(contents), quiet))).rejects.toThrow(
    'keep what is written to weights',
  );
});

test('whoever waits when all is closed is told so', async () => {
  const contents = { weights: bytesOf(4_000, 1) };
  const files = await openFiles(manifestOf('m', contents, PIECE), new MemoryDisk());
  const origin = Object.assign(new MemoryOrigin(contents), { stretch: 10 });
  const download = new PieceDownload(files, origin, quiet);
  const waiting = download.want(files[0]!, 3);
  download.close();
  await expect(waiting).rejects.toThrow('closed');
  await expect(download.want(files[0]!, 3)).rejects.toThrow('closed');
  expect(origin.given).toBeLessThan(4_000);
});
