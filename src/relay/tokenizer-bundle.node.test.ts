import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { afterEach, expect, test } from 'vitest';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { GetTokenizerRequestSchema } from '../contract/gen/smg_common_pb.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { MODEL_DIR } from './testing/relay-bench.ts';
import { TokenizerBundle } from './tokenizer-bundle.ts';

const start = benchPerTest();
const folders: string[] = [];

afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

/** By the central directory, as readers do. */
function unzip(archive: Buffer): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  const end = archive.length - 22;
  expect(archive.readUInt32LE(end)).toBe(0x06054b50);
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    expect(archive.readUInt32LE(at)).toBe(0x02014b50);
    const [packed, size, nameLength] = [20, 24]
      .map((field) => archive.readUInt32LE(at + field))
      .concat(archive.readUInt16LE(at + 28)) as [number, number, number];
    const local = archive.readUInt32LE(at + 42);
    const name = archive.toString('ascii', at + 46, at + 46 + nameLength);
    expect(archive.readUInt32LE(local)).toBe(0x04034b50);
    expect(archive.toString('ascii', local + 30, local + 30 + nameLength)).toBe(name);
    const from = local + 30 + nameLength + archive.readUInt16LE(local + 28);
    const bytes = inflateRawSync(archive.subarray(from, from + packed));
    expect(bytes.length).toBe(size);
    files.set(name, bytes);
    at += 46 + nameLength;
  }
  expect(at).toBe(end);
  return files;
}

async function read(bundle: TokenizerBundle) {
  const chunks = [];
  for await (const chunk of bundle.chunks()) chunks.push(chunk);
  return { chunks, archive: Buffer.concat(chunks.map(({ data }) => data)) };
}

test('GetTokenizer: the files of the tokenizer, and no weights, in chunks whose last has the hash', async () => {
  const on = await start();
  const stream = on.client.stream(SglangScheduler.method.getTokenizer, create(GetTokenizerRequestSchema));
  const { messages, error } = await collect(stream);
  expect(error).toBeUndefined();
  const archive = Buffer.concat(messages.map(({ data }) => data));
  expect(messages.every(({ data }) => data.length > 0 && data.length <= 65_536)).toBe(true);
  expect(messages.slice(0, -1).every(({ sha256 }) => sha256 === '')).toBe(true);
  expect(messages.at(-1)?.sha256).toBe(createHash('sha256').update(archive).digest('hex'));
  const files = unzip(archive);
  const there = (await readdir(MODEL_DIR)).filter((name) => /\.json$|\.jinja$/.test(name));
  expect([...files.keys()].sort()).toEqual(there.sort());
  for (const [name, bytes] of files) expect(bytes.equals(await readFile(join(MODEL_DIR, name)))).toBe(true);
});

test('large files come in many chunks, the same each time; what can not be read now may be later', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'shoal-tokenizer-'));
  folders.push(folder);
  const bundle = new TokenizerBundle(join(folder, 'model'));
  await expect(read(bundle)).rejects.toThrow('ENOENT');
  const inside = new TokenizerBundle(folder);
  // Words that don't pack well.
  const large = Buffer.concat(
    Array.from({ length: 6_000 }, (_, at) => createHash('sha256').update(String(at)).digest()),
  );
  await writeFile(join(folder, 'tokenizer.json'), large);
  await writeFile(join(folder, 'chat_template.jinja'), '');
  await writeFile(join(folder, 'model.safetensors'), 'weights');
  const { chunks, archive } = await read(inside);
  expect(chunks.length).toBeGreaterThan(2);
  expect([...unzip(archive)]).toEqual([
    ['chat_template.jinja', Buffer.alloc(0)],
    ['tokenizer.json', large],
  ]);
  expect((await read(new TokenizerBundle(folder))).archive.equals(archive)).toBe(true);
});
