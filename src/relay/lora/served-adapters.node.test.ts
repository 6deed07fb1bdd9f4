import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { AdapterDoneSchema } from '../../contract/gen/node_relay_pb.ts';
import { LinkAdapters } from './link-adapters.ts';
import { ServedAdapters } from './served-adapters.ts';

let home: string;
let path: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-lora-'));
  path = join(home, 'pirate');
  cpSync(new URL('../../testing/golden/lora/llama-r4-all', import.meta.url), path, { recursive: true });
});
afterAll(() => rmSync(home, { recursive: true }));
afterEach(() => void vi.useRealTimers());

/** A session whose node answers what it is asked, or nothing. */
function openLink(rank: number, answers: boolean) {
  const asked = { count: 0 };
  const adapters: LinkAdapters = new LinkAdapters(
    (command) => {
      asked.count++;
      const { requestId } = command.value as { requestId: bigint };
      if (answers) queueMicrotask(() => adapters.done(create(AdapterDoneSchema, { requestId })));
    },
    () => {},
  );
  return { link: { rank, serving: true, adapters }, asked };
}

test('nodes that don’t answer in time are told as such: an adapter stays, and those that serve are no fewer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const [silent, prompt] = [openLink(0, false), openLink(1, true)];
  const links = [silent.link];
  const served = new ServedAdapters({ most: 2, maxRank: 64 }, () => links, pino({ level: 'silent' }));
  const answerOf = async (call: Promise<string>, asked: number) => {
    await vi.waitFor(() => expect(silent.asked.count).toBe(asked));
    await vi.advanceTimersByTimeAsync(120_000);
    return call;
  };
  const ask = { path, id: '', pinned: false };
  expect(await answerOf(served.load({ ...ask, name: 'a' }), 1)).toBe('1 of 1 nodes did not answer within 120 s.');
  links.push(prompt.link);
  expect(await answerOf(served.load({ ...ask, name: 'b' }), 2)).toBe('1 of 2 nodes did not answer within 120 s.');
  expect(served.all.map(({ id }) => id)).toEqual(['a', 'b']);
  expect(await answerOf(served.unload('b'), 3)).toBe('1 nodes are not done with it: no answer within 120 s');
});
