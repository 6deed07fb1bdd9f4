import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import { MAX_OF_ADDRESS, MAX_OF_TOKEN, Sessions } from './sessions.ts';
import { TokenSet } from './token-set.ts';

const tokens = new TokenSet([
  { role: 'node', token: 'node-token-0123456789' },
  { role: 'client', token: 'client-token-0123456789' },
]);
const [node, client] = tokens.all as [TokenSet['all'][0], TokenSet['all'][0]];

let now = 0;
const sessions = new Sessions(1_000, () => now);
afterEach(() => {
  now += 10_000_000;
  sessions.keepOnly(new TokenSet([]));
});

test('a session lives from use to use, and longer while something is open under it', () => {
  const { token, expiresInMs } = sessions.open(node, 'a');
  expect(expiresInMs).toBe(1_000);
  for (let at = 0; at < 5; at++) {
    now += 999;
    expect(sessions.use(token)?.role).toBe('node');
  }
  const release = sessions.use(token)!.hold!();
  now += 5_000;
  const session = sessions.use(token);
  expect(session?.ended?.aborted).toBe(false);
  release();
  now += 1_000;
  expect(sessions.use(token)).toBeUndefined();
  expect(session?.ended?.reason).toMatchObject({ code: Code.Unauthenticated });
  expect(sessions.use('x')).toBeUndefined();
});

test('sessions end with their token, and only with theirs', () => {
  const [one, other] = [sessions.open(node, 'a').token, sessions.open(client, 'a').token];
  const ended = sessions.use(one)!.ended!;
  expect(sessions.keepOnly(new TokenSet([{ role: 'client', token: 'client-token-0123456789' }]))).toBe(1);
  expect([ended.aborted, sessions.use(one)]).toEqual([true, undefined]);
  expect(sessions.use(other)?.role).toBe('client');
  // The same token for another role is another one.
  expect(sessions.keepOnly(new TokenSet([{ role: 'operator', token: 'client-token-0123456789' }]))).toBe(1);
});

test('at one address the longest quiet session makes room, never one that is in use, and never another’s', () => {
  const elsewhere = sessions.open(node, 'b').token;
  const all = Array.from({ length: MAX_OF_ADDRESS }, () => sessions.open(node, 'a').token);
  const holds = [0, 1, 3].map((at) => sessions.use(all[at]!)!.hold!());
  sessions.use(all[2]!);
  sessions.open(node, 'a');
  expect(sessions.use(all[4]!)).toBeUndefined();
  for (const token of [...all.slice(0, 4), ...all.slice(5), elsewhere]) expect(sessions.use(token)).toBeDefined();
  expect(sessions.count).toBe(MAX_OF_ADDRESS + 1);
  for (const token of all.slice(5)) holds.push(sessions.use(token)!.hold!());
  sessions.use(all[2]!)!.hold!();
  // One newcomer is still quiet, and goes; then all are in use.
  sessions.use(sessions.open(node, 'a').token)!.hold!();
  expect(() => sessions.open(node, 'a')).toThrow('Too many sessions of this token at one address.');
  expect(sessions.open(client, 'a').token).toBeDefined();
  // Behind a proxy all have one address.
  expect(sessions.open(node, 'a', false).token).toBeDefined();
  for (const release of holds) release();
});

test('a token’s holders have a share of all sessions, wherever they are, and make room among themselves', () => {
  const first = sessions.open(node, 'proxy', false).token;
  for (let at = 1; at < MAX_OF_TOKEN; at++) sessions.open(node, 'proxy', false);
  expect(sessions.count).toBe(MAX_OF_TOKEN);
  expect(() => sessions.open(node, 'elsewhere')).toThrow('Too many sessions of this token.');
  sessions.open(client, 'elsewhere');
  sessions.open(node, 'proxy', false);
  expect(sessions.use(first)).toBeUndefined();
  expect(sessions.count).toBe(MAX_OF_TOKEN + 1);
});
