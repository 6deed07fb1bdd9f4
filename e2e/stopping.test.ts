// Told to stop while they still open something, commands end soon and leave no process behind.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type InstalledShoal, installShoal } from './harness/installed.ts';
import { Command, node22, userEnvironment } from './harness/processes.ts';
import { until } from './harness/wait.ts';

/**
 * A Python of which one part never ends: it and a child of its own write their ids down and wait. Every call of it is
 * written down too.
 */
const STUB_PYTHON = `#!/bin/sh
case "$1 $2" in
  "-c "*) stage=probe ;;
  "-m venv") stage=venv ;;
  "-m pip") stage=pip ;;
  *) stage=gateway ;;
esac
echo "$stage" >> "$STUB_FOLDER/stages"
if [ "$stage" = "$STUB_SLOW" ]; then
  [ -z "$STUB_DEAF" ] || trap '' TERM INT
  # The gateway is one process.
  [ "$stage" != gateway ] || exec sh -c 'echo $$ > "$STUB_FOLDER/pids"; exec sleep 300'
  sleep 300 &
  echo "$$ $!" > "$STUB_FOLDER/pids"
  while :; do wait $!; sleep 1; done
fi
if [ "$stage" = venv ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python"
fi
`;
const STUB_BROWSER = `#!/bin/sh
[ "$1" = --version ] && exit 0
sleep 300 &
echo "$$ $!" > "$STUB_FOLDER/pids"
wait $!
`;

let installed: InstalledShoal;
beforeAll(() => {
  installed = installShoal();
});
afterAll(() => installed?.remove());

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // A process that has ended may still wait for its parent to hear of it.
  return !/\) Z /.test(existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '');
}

/** A process's children and theirs; none where the system does not tell. */
function descendants(pid: number): number[] {
  const parents = (existsSync('/proc/1') ? readdirSync('/proc') : []).filter(Number).flatMap((name) => {
    try {
      const [, parent] = /\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? [];
      return [[Number(name), Number(parent)] as const];
    } catch {
      return [];
    }
  });
  const below = (of: number): number[] =>
    parents.filter(([, parent]) => parent === of).flatMap(([child]) => [child, ...below(child)]);
  return below(pid);
}

function stubFolder(programs: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-stub-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'bin'));
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(folder, 'bin', name), text);
    chmodSync(join(folder, 'bin', name), 0o755);
  }
  return folder;
}

/** Starts a command with stubs before all else on its path, and waits until one of them runs for ever. */
async function startStuck(args: readonly string[], folder: string, env: Readonly<Record<string, string>>) {
  rmSync(join(installed.folder, '.venv'), { recursive: true, force: true });
  const own = userEnvironment();
  const command = new Command(node22, [installed.script, ...args], {
    ...own,
    ...env,
    STUB_FOLDER: folder,
    PATH: [join(folder, 'bin'), own.PATH].join(delimiter),
  });
  let pids: number[] = [];
  onTestFinished(async () => {
    await command.kill();
    for (const pid of pids.filter(alive)) process.kill(pid, 'SIGKILL');
  });
  pids = await until('the stub runs', 15_000, () => {
    if (command.process.exitCode !== null) throw new Error(`it ended: ${command.said()}`);
    const file = join(folder, 'pids');
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    return text.endsWith('\n') && text.trim().split(' ').map(Number);
  });
  expect(pids.every(alive)).toBe(true);
  return { command, pids };
}

async function expectEnds(command: Command, pids: readonly number[], signal: NodeJS.Signals, boundMs: number) {
  const told = performance.now();
  expect(await command.stop(signal, 20_000)).toBe(signal === 'SIGINT' ? 0 : 143);
  expect(performance.now() - told).toBeLessThan(boundMs);
  // A browser's last processes are no children of its first, and end behind it.
  await until('all that it started is gone', 1_000, () => !pids.some(alive));
  // Asked to stop is no failure to tell of.
  expect(command.said()).not.toMatch(/error:|did not/);
}

async function listening<T extends Server>(server: T): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe.skipIf(process.platform === 'win32')('told to stop', () => {
  test.each([
    ['looks for Python', 'probe', 'SIGTERM'],
    ['makes the virtual environment', 'venv', 'SIGTERM'],
    ['waits for pip', 'pip', 'SIGTERM'],
    ['waits for pip', 'pip', 'SIGINT'],
    ['waits for the gateway', 'gateway', 'SIGTERM'],
  ] as const)('while it %s (%s, %s) the gateway command ends and starts nothing more', async (_, stage, signal) => {
    const relay = await listening(createServer((socket) => socket.on('error', () => {})));
    const folder = stubFolder({ python3: STUB_PYTHON });
    const args = ['gateway', '--relay', `127.0.0.1:${relay}`, '--port', '0'];
    const { command, pids } = await startStuck(args, folder, { STUB_SLOW: stage });
    await expectEnds(command, pids, signal, 3_000);
    const stages = readFileSync(join(folder, 'stages'), 'utf8').trim().split('\n');
    expect(stages.at(-1)).toBe(stage);
    expect(stages.includes('gateway')).toBe(stage === 'gateway');
  });

  test('an installer that does not listen is ended by force', async () => {
    const folder = stubFolder({ python3: STUB_PYTHON });
    const { command, pids } = await startStuck(['gateway', '--port', '0'], folder, {
      STUB_SLOW: 'pip',
      STUB_DEAF: '1',
    });
    await expectEnds(command, pids, 'SIGTERM', 8_000);
  });

  test('a second Ctrl-C ends an installer at once', async () => {
    const folder = stubFolder({ python3: STUB_PYTHON });
    const { command, pids } = await startStuck(['gateway', '--port', '0'], folder, {
      STUB_SLOW: 'pip',
      STUB_DEAF: '1',
    });
    const told = performance.now();
    command.process.kill('SIGINT');
    await new Promise((resolve) => setTimeout(resolve, 700));
    command.process.kill('SIGINT');
    expect(await command.exited).toBe(130);
    expect(performance.now() - told).toBeLessThan(2_500);
    await until('the installer is gone', 1_000, () => !pids.some(alive));
  });

  test('while its browser starts, start ends with relay and browser', async () => {
    const folder = stubFolder({ browser: STUB_BROWSER });
    const args = ['start', '--port', '0', '--web-port', '0', '--headless', '--software-gpu'];
    const { command, pids } = await startStuck(args, folder, { SHOAL_BROWSER: join(folder, 'bin', 'browser') });
    await expectEnds(command, pids, 'SIGTERM', 5_000);
  });

  test('while its page does not serve yet, node ends with its browser', async () => {
    let opened = () => {};
    const asked = new Promise<void>((resolve) => {
      opened = resolve;
    });
    const relay = await listening(
      createHttpServer((_, response) => {
        response.end('<!doctype html><title>never serves</title>');
        opened();
      }),
    );
    const command = new Command(node22, [
      installed.script,
      'node',
      ...['--relay', `http://127.0.0.1:${relay}`, '--headless', '--software-gpu'],
    ]);
    onTestFinished(() => command.kill());
    await asked;
    const browser = descendants(command.process.pid!);
    await expectEnds(command, browser, 'SIGTERM', 6_000);
  });
});
