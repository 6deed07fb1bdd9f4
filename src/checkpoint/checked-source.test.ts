import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CheckedSource, type FetchRange } from './checked-source.ts';
import { CheckpointError } from './checkpoint.ts';
import { type ManifestFile, sha256Hex } from './manifest.ts';

async function manifestFile(bytes: Uint8Array, pieceBytes: number): Promise<ManifestFile> {
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes)
    pieces.push(await sha256Hex(bytes.subarray(at, at + pieceBytes)));
  return { name: 'weights.bin', size: bytes.length, sha256: await sha256Hex(bytes), pieces };
}

/** Gives a file's bytes in stretches of the given lengths, again and again. */
function rangesOf(bytes: Uint8Array, lengths: readonly number[] = [1 << 20]): FetchRange {
  return async function* fetchRange(offset, length) {
    let turn = 0;
    for (let at = offset; at < offset + length; ) {
      const to = Math.min(at + lengths[turn++ % lengths.length]!, offset + length);
      yield bytes.subarray(at, to);
      at = to;
    }
  };
}

test('any reads in any order are the bytes of the file, however they come', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ minLength: 1, maxLength: 400 }),
      fc.integer({ min: 1, max: 64 }),
      fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 5 }),
      fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 1, maxLength: 20 }),
      async (bytes, pieceBytes, lengths, reads) => {
        let told = 0;
        const file = await manifestFile(bytes, pieceBytes);
        const source = new CheckedSource(file, pieceBytes, 'url', rangesOf(bytes, lengths), (count) => {
          told += count;
        });
        for (const [a, b] of [...reads, [0, bytes.length] as const]) {
          const offset = a % (bytes.length + 1);
          const length = b % (bytes.length - offset + 1);
          expect(await source.read(offset, length)).toEqual(bytes.slice(offset, offset + length));
        }
        expect(told).toBeLessThanOrEqual(bytes.length);
        await source.read(0, bytes.length);
        expect(told).toBe(bytes.length);
      },
    ),
    { numRuns: 200 },
  );
});

test('a broken byte is told with its piece, and nothing of that piece is given', async () => {
  const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
  const file = await manifestFile(bytes, 10);
  const broken = bytes.slice();
  broken[57]! ^= 1;
  const source = new CheckedSource(file, 10, 'http://relay/weights.bin', rangesOf(broken));
  expect(await source.read(5, 30)).toEqual(bytes.slice(5, 35));
  await expect(source.read(45, 10)).rejects.toThrow(
    new CheckpointError("http://relay/weights.bin: the SHA-256 of bytes 50 to 60 is not the manifest's"),
  );
});

test('too few and too many bytes are told', async () => {
  const bytes = new Uint8Array(100);
  const file = await manifestFile(bytes, 10);
  const short = new CheckedSource(file, 10, 'url', (offset, length) => rangesOf(bytes)(offset, length - 1));
  await expect(short.read(0, 100)).rejects.toThrow('fewer bytes came');
  const long = new CheckedSource(file, 10, 'url', (offset, length) => rangesOf(bytes)(offset, length + 1));
  await expect(long.read(0, 50)).rejects.toThrow('more bytes came');
});

test('tensors side by side cost few requests, and few pieces are held', async () => {
  const bytes = new Uint8Array(64 * 16);
  const asked: number[] = [];
  const file = await manifestFile(bytes, 16);
  const source = new CheckedSource(file, 16, 'url', (offset, length) => {
    asked.push(length);
    return rangesOf(bytes)(offset, length);
  });
  await source.read(0, 4);
  // What follows is fetched meanwhile.
  expect(asked).toEqual([64, 64]);
  for (let at = 4; at < bytes.length; at += 4) await source.read(at, 4);
  expect(asked).toEqual(Array.from({ length: 16 }, () => 64));
  // No more than eight pieces are kept: the first ones come again.
  await source.read(0, 16);
  expect(asked).toHaveLength(17);
});
