import { messageOf } from './errors.ts';

const CLOSE_BOUND_MS = 8_000;
/** One Ctrl-C may arrive twice: from the terminal, and from the process that started this one. */
const SAME_SIGNAL_MS = 500;
const PARENT_CHECK_MS = 1_000;

/**
 * Ends what a command has opened, last first, on Ctrl-C, SIGTERM, SIGHUP, or when the starting process dies.
 * Bounded in time; a second Ctrl-C ends at once.
 */
export class Shutdown {
  readonly #closers: { name: string; close: () => Promise<unknown> | unknown }[] = [];
  #exit: ((code: number) => void) | undefined;
  #startedAt: number | undefined;
  readonly #finished: Promise<number>;

  constructor() {
    this.#finished = new Promise((resolve) => {
      this.#exit = resolve;
    });
    const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
    for (const signal of Object.keys(codes) as (keyof typeof codes)[]) {
      process.on(signal, () => {
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

  get begun(): boolean {
    return this.#startedAt !== undefined;
  }

  add(name: string, close: () => Promise<unknown> | unknown): void {
    this.#closers.push({ name, close });
  }

  /** Starts closing; `wait` resolves with `code` afterwards. */
  begin(code: number): void {
    if (this.#startedAt !== undefined) return;
    this.#startedAt = performance.now();
    void this.#closeAll().then(() => this.#exit?.(code));
  }

  /** Resolves with the exit code once all is closed. */
  wait(): Promise<number> {
    return this.#finished;
  }

  async #closeAll(): Promise<void> {
    const until = performance.now() + CLOSE_BOUND_MS;
    for (const { name, close } of this.#closers.reverse()) {
      const left = Math.max(0, until - performance.now());
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
}
