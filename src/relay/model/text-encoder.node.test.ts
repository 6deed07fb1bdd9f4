import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Code } from '@connectrpc/connect';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { TOKEN_IDS, writeEncoderFolder } from '../../testing/encoder-folder.node.ts';
import type { ServedModel } from '../served-model.ts';
import { openModel } from './open-model.ts';
import { type EncoderBounds, TextEncoder } from './text-encoder.ts';

// Threads on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

/** A thread that does what its texts say. */
const SCRIPTED = `
import { parentPort } from 'node:worker_threads';
parentPort.on('message', ({ text }) => {
  if (text === 'breaks') throw new RangeError('private');
  if (text === 'ends') process.exit(0);
  if (text === 'fills') { const all = []; for (;;) all.push(new Array(1e6).fill(0.5)); }
  while (text === 'hangs') {}
  if (text === 'fails') parentPort.postMessage({ case: 'failed', error: 'TypeError' });
  else if (text !== 'is silent') parentPort.postMessage({ case: 'encoded', ids: Int32Array.of(text.length) });
});
parentPort.postMessage({ case: 'ready' });
`;

/** A thread that never comes to its tokenizer where it is the first, and takes a while where it is a later one. */
const LATE = `
import { existsSync, writeFileSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
const first = new URL('late-began', import.meta.url);
parentPort.on('message', ({ text }) => parentPort.postMessage({ case: 'encoded', ids: Int32Array.of(text.length) }));
if (existsSync(first)) setTimeout(() => parentPort.postMessage({ case: 'ready' }), 200);
else writeFileSync(first, '');
`;

let home: string;
let model: ServedModel;
const entryOf = (name: string) => pathToFileURL(join(home, name));
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-texts-'));
  writeFileSync(join(home, 'scripted.mjs'), SCRIPTED);
  writeFileSync(join(home, 'mute.mjs'), 'setInterval(() => {}, 1000);');
  writeFileSync(join(home, 'broken.mjs'), "throw new Error('private');");
  writeFileSync(join(home, 'late.mjs'), LATE);
  model = await openModel(writeEncoderFolder(join(home, 'embedder'), { name: 'bert', pools: true }), {
    cache: join(home, 'cache'),
  });
});
afterAll(() => rmSync(home, { recursive: true }));

const lines: string[] = [];
let texts: TextEncoder | undefined;
afterEach(() => {
  texts?.close();
  texts = undefined;
  // Nothing of a text, or of what was thrown over it, is in the log.
  expect(lines.join()).not.toContain('private');
  lines.length = 0;
});

/** `entry`: a file that the thread runs in the tokenizer's place. */
function open(entry?: string, bounds: Partial<EncoderBounds> = {}): TextEncoder {
  const log = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) });
  texts = new TextEncoder({ now: model }, log, { ...bounds, ...(entry ? { entry: entryOf(entry) } : {}) });
  return texts;
}

const NEVER = new AbortController().signal;
const ask = (on: TextEncoder, text: string, signal = NEVER) => on.encode(text, undefined, signal);
const ids = (...tokens: string[]) => tokens.map((token) => TOKEN_IDS.get(token)!);

test('gives the ids that the model’s tokenizer makes, of many at once each its own', async () => {
  const on = open();
  const both = await Promise.all([ask(on, 'The cat sat.'), on.encode('the sky', 'blue', NEVER), ask(on, 'a dog')]);
  expect(both.map((one) => one.ids)).toEqual([
    ids('[CLS]', 'the', 'cat', 'sat', '.', '[SEP]'),
    ids('[CLS]', 'the', 'sky', '[SEP]', 'blue', '[SEP]'),
    ids('[CLS]', 'a', 'dog', '[SEP]'),
  ]);
});

test('another model’s texts are of its own tokenizer', async () => {
  const now = { model };
  const served = {
    get now() {
      return now.model;
    },
  };
  const log = pino({ level: 'silent' });
  texts = new TextEncoder(served, log);
  expect((await ask(texts, 'a dog')).ids).toEqual(ids('[CLS]', 'a', 'dog', '[SEP]'));
  now.model = await openModel(new URL('../../../models/stories260K', import.meta.url).pathname);
  expect((await ask(texts, 'a dog')).ids[0]).toBe(1);
});

test('a tokenizer that can’t be read fails those that wait, and is read again for the next', async () => {
  const folder = join(home, 'unread');
  const log = pino({ level: 'silent' });
  texts = new TextEncoder({ now: { ...model, folder } }, log);
  const all = await Promise.allSettled([ask(texts, 'a'), ask(texts, 'b')]);
  for (const one of all) expect(one).toMatchObject({ reason: { message: expect.stringContaining('ENOENT') } });
  writeEncoderFolder(folder, { name: 'bert', pools: true });
  expect((await ask(texts, 'a dog')).ids).toEqual(ids('[CLS]', 'a', 'dog', '[SEP]'));
});

test.each(['breaks', 'ends', 'fails'])(
  'a text over which the thread %s fails alone; the others go on',
  async (text) => {
    const on = open('scripted.mjs');
    const before = ask(on, '1');
    const failed = ask(on, text).catch((error: unknown) => error);
    const behind = [ask(on, '22'), ask(on, '333')];
    expect((await before).ids).toEqual([1]);
    const error = await failed;
    // No status of its own: INTERNAL.
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toHaveProperty('code');
    expect(String(error)).not.toContain('private');
    expect((await Promise.all(behind)).map((one) => one.ids)).toEqual([[2], [3]]);
  },
);

test('a text that fills the thread’s memory fails alone', { timeout: 60_000 }, async () => {
  const on = open('scripted.mjs', { encodeMs: 40_000, heapMib: 64 });
  await expect(ask(on, 'fills')).rejects.toThrow('ERR_WORKER_OUT_OF_MEMORY');
  expect((await ask(on, '22')).ids).toEqual([2]);
});

test('a text that takes too long fails with DEADLINE_EXCEEDED, and nothing waits for its thread', async () => {
  const on = open('scripted.mjs', { encodeMs: 300 });
  await ask(on, '1');
  const hung = ask(on, 'hangs').catch((error: unknown) => error);
  const behind = ask(on, '22');
  // This thread goes on meanwhile.
  let turns = 0;
  const timer = setInterval(() => turns++, 5);
  expect(await hung).toMatchObject({ code: Code.DeadlineExceeded });
  clearInterval(timer);
  expect(turns).toBeGreaterThan(3);
  expect((await behind).ids).toEqual([2]);
});

test('texts that wait too long fail with DEADLINE_EXCEEDED, and too many with RESOURCE_EXHAUSTED', async () => {
  const on = open('scripted.mjs', { waitMs: 500, mostWaiting: 2 });
  await ask(on, '1');
  const stop = new AbortController();
  const silent = ask(on, 'is silent', stop.signal).catch((error: unknown) => error);
  const waiting = [ask(on, '22'), ask(on, '333')].map((one) => one.catch((error: unknown) => error));
  await expect(ask(on, '4444')).rejects.toMatchObject({ code: Code.ResourceExhausted });
  for (const one of waiting) expect(await one).toMatchObject({ code: Code.DeadlineExceeded });
  stop.abort(new Error('left'));
  expect(await silent).toMatchObject({ message: 'left' });
});

test('one whose client leaves waits no more, and is never begun', async () => {
  const on = open('scripted.mjs', { encodeMs: 300 });
  await ask(on, '1');
  const stop = new AbortController();
  const hung = ask(on, 'hangs').catch((error: unknown) => error);
  const left = ask(on, 'hangs', stop.signal).catch((error: unknown) => error);
  const behind = ask(on, '22');
  stop.abort(new Error('left'));
  expect(await left).toMatchObject({ message: 'left' });
  await expect(ask(on, 'a', stop.signal)).rejects.toThrow('left');
  expect(await hung).toMatchObject({ code: Code.DeadlineExceeded });
  expect((await behind).ids).toEqual([2]);
  // Of two that hang, one was begun.
  expect(lines.filter((line) => line.includes('took too long'))).toHaveLength(1);
});

test('a thread that never comes to its tokenizer, or breaks before, fails who waits for it', async () => {
  const mute = open('mute.mjs', { waitMs: 200 });
  await expect(ask(mute, 'a')).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  mute.close();
  const broken = open('broken.mjs');
  const all = await Promise.allSettled([ask(broken, 'a'), ask(broken, 'b')]);
  for (const one of all) expect(one).toMatchObject({ reason: { message: 'the tokenizer failed: Error' } });
});

test('a thread has its own time to come to its tokenizer, whoever has waited too long for those before it', async () => {
  const on = open('late.mjs', { waitMs: 1_000 });
  const asked: Promise<unknown>[] = [];
  for (let text = 0; text < 30; text++) {
    asked.push(ask(on, 'a').catch((error: unknown) => error));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expect(await asked[0]).toMatchObject({ code: Code.DeadlineExceeded });
  expect(await asked.at(-1)).toEqual({ ids: [1], typeIds: undefined });
  expect(lines.filter((line) => line.includes('took too long to start'))).toHaveLength(1);
});

test('the relay’s end fails all with UNAVAILABLE', async () => {
  const on = open('scripted.mjs');
  await ask(on, '1');
  const all = [ask(on, 'is silent'), ask(on, '22')].map((one) => one.catch((error: unknown) => error));
  on.close();
  for (const one of all) expect(await one).toMatchObject({ code: Code.Unavailable });
  await expect(ask(on, '333')).rejects.toMatchObject({ code: Code.Unavailable });
});
