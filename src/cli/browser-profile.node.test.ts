import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { BrowserProfile } from './browser-profile.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'shoal-profiles-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return join(path, 'browsers');
}

function write(profile: BrowserProfile, path: string): string {
  const whole = join(profile.folder, path);
  mkdirSync(join(whole, '..'), { recursive: true });
  writeFileSync(whole, 'x');
  return whole;
}

/** Of a process that has ended. */
function endedPid(): string {
  return String(spawnSync(process.execPath, ['--version']).pid);
}

function newestLock(parent: string, number: number): string {
  const generations = readdirSync(parent).flatMap((name) => {
    const [, profile, generation] = name.split(/^(\d+)\.(\d+)\.pid$/);
    return profile === String(number) ? [Number(generation)] : [];
  });
  return join(parent, `${number}.${Math.max(...generations)}.pid`);
}

/** Takes a profile when it is told to, at the same moment as others. */
const TAKER = new URL('./testing/take-profile.ts', import.meta.url);
const ROUNDS = process.env.SHOAL_LONG === '1' ? 300 : 25;

test('one browser at a time has a profile, and what ended without a word gives its own back', () => {
  const parent = folder();
  const [first, second] = [BrowserProfile.take(parent)!, BrowserProfile.take(parent)!];
  expect(second.folder).not.toBe(first.folder);
  first.release();
  expect(BrowserProfile.take(parent)!.folder).toBe(first.folder);
  for (const left of [endedPid(), '', 'none']) {
    writeFileSync(newestLock(parent, 2), left);
    const again = BrowserProfile.take(parent)!;
    expect(again.folder).toBe(second.folder);
    expect(readFileSync(newestLock(parent, 2), 'utf8')).toBe(String(process.pid));
  }
  // Of those before one is left, so that whoever is late sees it.
  expect(readdirSync(parent).filter((name) => name.startsWith('2.'))).toHaveLength(2);
});

test('of several processes that find the same locks of ended ones, each comes to a profile of its own', {
  timeout: 60_000,
}, async () => {
  const takers = Array.from({ length: 4 }, () =>
    fork(TAKER, [], { execArgv: ['--experimental-strip-types', '--no-warnings'] }),
  );
  onTestFinished(() => {
    for (const taker of takers) taker.kill();
  });
  await Promise.all(takers.map((taker) => once(taker, 'message')));
  const ended = endedPid();
  for (let round = 0; round < ROUNDS; round++) {
    const parent = folder();
    mkdirSync(parent);
    for (let number = 1; number <= 8; number++) writeFileSync(join(parent, `${number}.7.pid`), ended);
    const answers = takers.map((taker) => once(taker, 'message'));
    for (const taker of takers) taker.send({ parent, at: Date.now() + 15 });
    const taken = (await Promise.all(answers)).map(([path]) => path as string);
    expect(new Set(taken).size, `round ${round}: ${taken}`).toBe(takers.length);
  }
});

test('a process with the number of one that ended without a word has its profile', () => {
  const parent = folder();
  mkdirSync(parent);
  writeFileSync(join(parent, '1.1.pid'), String(process.pid));
  const [first, second] = [BrowserProfile.take(parent)!, BrowserProfile.take(parent)!];
  expect(first.folder).toBe(join(parent, '1'));
  expect(second.folder).toBe(join(parent, '2'));
});

test('eight browsers have a past, more have none', () => {
  const parent = folder();
  const taken = Array.from({ length: 9 }, () => BrowserProfile.take(parent));
  expect(new Set(taken.slice(0, 8).map((profile) => profile?.folder)).size).toBe(8);
  expect(taken[8]).toBeUndefined();
});

test('models, findings and settings stay; history, cookies and what tabs knew go, before a start and after an end', () => {
  const parent = folder();
  const profile = BrowserProfile.take(parent)!;
  const stays = [
    'Default/File System/000/t/00/00000001',
    'Default/IndexedDB/http_a_0/1.ldb',
    'Default/Local Storage/a',
  ];
  const goes = [
    'Default/History',
    'Default/Cookies',
    'Default/Session Storage/1.log',
    'Default/Sessions/s',
    'Local State',
  ];
  const check = (kept: readonly string[], gone: readonly string[]) => {
    expect(kept.map((path) => existsSync(path))).toEqual(kept.map(() => true));
    expect(gone.map((path) => existsSync(path))).toEqual(gone.map(() => false));
  };
  const paths = (names: readonly string[]) => names.map((name) => write(profile, name));
  let [kept, gone] = [paths(stays), paths(goes)];
  profile.release();
  check(kept, gone);
  [kept, gone] = [paths(stays), paths(goes)];
  expect(BrowserProfile.take(parent)!.folder).toBe(profile.folder);
  check(kept, gone);
  profile.reset();
  check([profile.folder], kept);
  if (process.platform !== 'win32') expect(statSync(profile.folder).mode & 0o777).toBe(0o700);
});

test('where nothing can be written there is none', () => {
  const parent = folder();
  writeFileSync(parent, 'a file');
  expect(BrowserProfile.take(parent)).toBeUndefined();
});
