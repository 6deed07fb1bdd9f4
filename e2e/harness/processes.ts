import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, sep } from 'node:path';
import { createInterface } from 'node:readline';
import { findNode22 } from '../../bin/node22.js';
import { packageRoot } from '../../src/cli/paths.ts';

export const shoalScript = join(packageRoot, 'bin', 'shoal.js');

/** The Node 22 that the relay runs on: killing its process is killing the relay. */
export const node22 = findNode22() ?? process.execPath;

/** The Node that this machine's user has, not the one that an npm package brought. */
export function systemNode(): string {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder === '' || folder.includes(`node_modules${sep}.bin`)) continue;
    const path = join(folder, process.platform === 'win32' ? 'node.exe' : 'node');
    try {
      accessSync(path, constants.X_OK);
      if (!realpathSync(path).includes(`${sep}node_modules${sep}`)) return path;
    } catch {
      // Not in this folder.
    }
  }
  return process.execPath;
}

/**
 * The environment of a user: what is set for Dawn in the tests' own process stays there, and what commands keep goes with
 * this process.
 */
export function userEnvironment(): NodeJS.ProcessEnv {
  const { LD_LIBRARY_PATH: _, VK_ICD_FILENAMES: __, ...env } = process.env;
  return { ...env, SHOAL_CACHE: env.SHOAL_CACHE ?? ownCache() };
}

let cache: string | undefined;

function ownCache(): string {
  if (cache === undefined) {
    const made = mkdtempSync(join(tmpdir(), 'shoal-cache-'));
    // A browser may be ending yet.
    process.on('exit', () => rmSync(made, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
    cache = made;
  }
  return cache;
}

/** A running command with what it has said so far. */
export class Command {
  readonly process: ChildProcess;
  readonly stdout: string[] = [];
  readonly stderr: string[] = [];
  /** Exit code, or the signal's name. */
  readonly exited: Promise<number | string>;
  #waiting: (() => void)[] = [];
  #end: number | string | undefined;

  constructor(program: string, args: readonly string[], env: NodeJS.ProcessEnv = userEnvironment()) {
    this.process = spawn(program, args, { cwd: packageRoot, stdio: ['ignore', 'pipe', 'pipe'], env });
    for (const name of ['stdout', 'stderr'] as const) {
      createInterface({ input: this.process[name]! }).on('line', (line) => {
        this[name].push(line);
        this.#wake();
      });
    }
    this.exited = new Promise((resolve) => {
      // `close` comes after the last line.
      this.process.on('close', (code, signal) => {
        this.#end = code ?? signal ?? -1;
        this.#wake();
        resolve(this.#end);
      });
      this.process.on('error', (error) => {
        this.stderr.push(error.message);
        this.#end = -1;
        this.#wake();
        resolve(-1);
      });
    });
  }

  /** Waits for a line of standard output; an end before it is an error with all that was said. */
  async line(pattern: RegExp, boundMs: number): Promise<RegExpExecArray> {
    const until = performance.now() + boundMs;
    for (;;) {
      for (const line of this.stdout) {
        const match = pattern.exec(line);
        if (match) return match;
      }
      if (this.#end !== undefined) throw new Error(`it ended (${this.#end}) without ${pattern}:\n${this.said()}`);
      const left = until - performance.now();
      if (left <= 0) throw new Error(`no line like ${pattern} within ${boundMs} ms:\n${this.said()}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#waiting.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  said(): string {
    return [...this.stdout, ...this.stderr].join('\n');
  }

  /** Ends it as a user does; the exit code. By force after `boundMs`. */
  async stop(signal: NodeJS.Signals = 'SIGTERM', boundMs = 12_000): Promise<number | string> {
    if (this.#end === undefined) this.process.kill(signal);
    const timer = setTimeout(() => this.process.kill('SIGKILL'), boundMs);
    const end = await this.exited;
    clearTimeout(timer);
    return end;
  }

  /** As a crash or the system would. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.exited;
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
