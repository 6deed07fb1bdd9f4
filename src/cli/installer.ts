import { type ChildProcess, spawn, spawnSync } from 'node:child_process';

export interface InstallerOptions {
  readonly boundMs: number;
  /** A download without a network hangs: it is ended when it says nothing for so long. */
  readonly silenceMs?: number;
  /** Ends it, with all that it has started. */
  readonly signal?: AbortSignal | undefined;
}

/** How an installer ended. */
export interface InstallerEnd {
  /** Its exit code; undefined where it did not start, or was ended by a signal. */
  readonly code: number | undefined;
  /** It took too long, and was ended. */
  readonly late: boolean;
  /** The last line that it wrote, or why it did not start. */
  readonly last: string;
}

/** What may still be put in order by an installer that is told to stop. */
const GRACE_MS = 3_000;
/** A program that it left behind may hold its output open. */
const OUTPUT_BOUND_MS = 500;

const running = new Set<ChildProcess>();
// Whatever ends this process, a second Ctrl-C too: installers end with it.
process.on('exit', () => {
  for (const child of running) endTree(child, 'SIGKILL');
});

/**
 * Runs an installer quietly: what goes wrong ends in one sentence of ours, not in its stack traces. Rejects with the
 * signal's reason, and only once the installer has ended.
 */
export async function runInstaller(
  command: string,
  args: readonly string[],
  options: InstallerOptions,
): Promise<InstallerEnd> {
  const { boundMs, silenceMs = boundMs, signal } = options;
  signal?.throwIfAborted();
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own can be ended whole. But sudo asks the terminal's session whether a password was given.
    detached: process.platform !== 'win32' && command !== 'sudo',
  });
  running.add(child);
  let last = '';
  let late = false;
  const expire = () => {
    late = true;
    endTree(child, 'SIGKILL');
  };
  const bound = setTimeout(expire, boundMs);
  let silence = setTimeout(expire, silenceMs);
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      last = text.trim().split('\n').at(-1) || last;
      clearTimeout(silence);
      silence = setTimeout(expire, silenceMs);
    });
  }
  let force: NodeJS.Timeout | undefined;
  const stop = () => {
    endTree(child, 'SIGTERM');
    force = setTimeout(() => endTree(child, 'SIGKILL'), GRACE_MS);
  };
  signal?.addEventListener('abort', stop, { once: true });
  const code = await new Promise<number | undefined>((resolve) => {
    child.on('error', (error) => {
      last = error.message;
      resolve(undefined);
    });
    child.on('close', (status) => resolve(status ?? undefined));
    child.on('exit', (status) => {
      if (late || signal?.aborted) endTree(child, 'SIGKILL');
      setTimeout(() => resolve(status ?? undefined), OUTPUT_BOUND_MS).unref();
    });
  });
  running.delete(child);
  signal?.removeEventListener('abort', stop);
  for (const timer of [bound, silence, force]) clearTimeout(timer);
  signal?.throwIfAborted();
  return { code, late, last };
}

/** Signals a program and what it has started. */
function endTree(child: ChildProcess, signal: NodeJS.Signals): void {
  const { pid } = child;
  if (pid === undefined) return;
  if (process.platform === 'win32') {
    spawnSync('taskkill', ['/pid', String(pid), '/T', '/F'], { stdio: 'ignore', timeout: 5_000 });
    return;
  }
  try {
    process.kill(-pid, signal);
  } catch {
    // It leads no group, or all of it has ended.
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  }
}
