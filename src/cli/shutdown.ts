import { messageOf } from './errors.ts';

const CLOSE_BOUND_MS = 8_000;
/** One Ctrl-C may arrive twice: from the terminal, and from the process that started this one. */
const SAME_SIGNAL_MS = 500;
const PARENT_CHECK_MS = 1_000;

/**
 * Ends what a command has opened or still opens, last first, on Ctrl-C, SIGTERM, SIGHUP, or when the starting process
 * dies. Bounded in time; a second Ctrl-C ends at once.
 */
export class Shutdown {
  readonly #closers: { name: string; close: () => Promise<unknown> | unknown }[] = [];
  readonly #stop = new AbortController();
  /** Closings of what was opened after the end began. */
  readonly #late: Promise<void>[] = [];
  #opening: Promise<unknown> = Promise.resolve();
  #exit: ((code: number) => void) | undefined;
  #startedAt: number | undefined;
  #boundMs = CLOSE_BOUND_MS;
  #onHangup: (() => void) | undefined;
  readonly #finished: Promise<number>;

  constructor() {
    this.#finished = new Promise((resolve) => {
      this.#exit = resolve;
    });
    const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
    for (const signal of Object.keys(codes) as (keyof typeof codes)[]) {
      process.on(signal, () => {
        if (signal === 'SIGHUP' && this.#onHangup && !this.begun) {
          this.#onHangup();
          return;
        }
        if (this.#startedAt !== undefined && performance.now() - this.#startedAt > SAME_SIGNAL_MS) {
          process.exit(codes[signal]);
        }
        // Asked to stop, stopped: a success for who asked by Ctrl-C.
        this.begin(signal === 'SIGINT' ? 0 : codes[signal]);
      });
    }
    if (process.env.SHOAL_PARENT !== undefined && process.connected) {
      process.on('disconnect', () => this.begin(1));
      // The channel alone must not keep the process alive.
      process.channel?.unref();
    }
    // An npm that is told to end ends its shell, which tells nobody: without this the ports would stay taken.
    if (process.env.npm_lifecycle_event !== undefined) {
      const parent = process.ppid;
      setInterval(() => {
        if (process.ppid !== parent) this.begin(1);
      }, PARENT_CHECK_MS).unref();
    }
  }

  /** Gives closing so much longer: what runs may end by itself. */
  allow(ms: number): void {
    this.#boundMs += ms;
  }

  /** What SIGHUP is for instead of ending, as with daemons whose files are replaced under them. */
  onHangup(reload: () => void): void {
    this.#onHangup = reload;
  }

  get begun(): boolean {
    return this.#startedAt !== undefined;
  }

  /** Aborts when the end begins: whoever still opens something stops then, and closes what is half open. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Closes it when the end begins; at once where that was before. */
  add(name: string, close: () => Promise<unknown> | unknown): void {
    if (this.#startedAt === undefined) this.#closers.push({ name, close });
    else this.#late.push(this.#close(name, close));
  }

  /**
   * Runs a command: `open` opens what it serves with, then it serves until the end. Resolves with the exit code once
   * all is closed; rejects with what `open` fails with, unless it was stopped.
   */
  async run(open: () => Promise<void>): Promise<number> {
    const opening = open();
    this.#opening = opening.catch(() => {});
    try {
      await Promise.race([opening, this.#finished]);
    } catch (error) {
      if (this.begun) return this.#finished;
      this.begin(1);
      await this.#finished;
      throw error;
    }
    return this.#finished;
  }

  /** Starts closing; `wait` resolves with `code` afterwards. */
  begin(code: number): void {
    if (this.#startedAt !== undefined) return;
    this.#startedAt = performance.now();
    this.#stop.abort(new Error('the command was told to stop'));
    void this.#closeAll().then(() => this.#exit?.(code));
  }

  /** Resolves with the exit code once all is closed. */
  wait(): Promise<number> {
    return this.#finished;
  }

  async #closeAll(): Promise<void> {
    await this.#close('What was being opened', () => this.#opening);
    for (const { name, close } of this.#closers.reverse()) await this.#close(name, close);
    await Promise.all(this.#late);
  }

  async #close(name: string, close: () => Promise<unknown> | unknown): Promise<void> {
    const left = Math.max(0, (this.#startedAt ?? 0) + this.#boundMs - performance.now());
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(resolve, left, 'late');
    });
    try {
      if ((await Promise.race([Promise.resolve(close()), late])) === 'late') {
        process.stderr.write(`${name} did not end in time.\n`);
      }
    } catch (error) {
      process.stderr.write(`${name} did not end cleanly: ${messageOf(error)}\n`);
    } finally {
      clearTimeout(timer);
    }
  }
}
