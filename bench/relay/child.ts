import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

/** What a process used since it was asked last, and holds. */
export interface Usage {
  /** Of one core. */
  readonly cpuShare: number;
  /** Of its objects and buffers, after a collection. */
  readonly heldBytes: number;
  readonly rssBytes: number;
}

/** A process of the bench, which does what it is asked, one thing after the other. */
export class Child {
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess) {
    this.#process = process;
  }

  /** `name` is a file beside this one, `flags` are Node's. */
  static async start(name: string, flags: readonly string[] = []): Promise<Child> {
    const execArgv = ['--experimental-transform-types', '--no-warnings', '--expose-gc', ...flags];
    const child = fork(new URL(`./${name}`, import.meta.url).pathname, { execArgv, serialization: 'advanced' });
    await once(child, 'message', { signal: AbortSignal.timeout(20_000) });
    return new Child(child);
  }

  /** Rejects where it has no answer within a minute, or ends. */
  async ask<Answer>(what: string, value?: unknown): Promise<Answer> {
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(60_000)]);
    const ended = once(this.#process, 'exit', { signal }).then(() => Promise.reject(new Error(`${what}: it ended`)));
    this.#process.send({ what, value }, () => {});
    try {
      const [answer] = await Promise.race([once(this.#process, 'message', { signal }), ended]);
      return answer.value;
    } finally {
      ended.catch(() => {});
      stop.abort();
    }
  }

  usage(): Promise<Usage> {
    return this.ask('usage');
  }

  async end(): Promise<void> {
    if (!this.#process.connected) return;
    const ended = once(this.#process, 'exit');
    this.#process.disconnect();
    await ended;
  }
}

/** In the process: does what is asked by these. */
export function serveParent(answers: Readonly<Record<string, (value: never) => unknown>>): void {
  let [cpu, at] = [process.cpuUsage(), performance.now()];
  const usage = async (): Promise<Usage> => {
    const used = process.cpuUsage(cpu);
    const cpuShare = (used.user + used.system) / 1_000 / (performance.now() - at);
    // Twice: what the first run finalises the second takes.
    for (let i = 0; i < 2; i++) {
      global.gc?.();
      await sleep(50);
    }
    const { heapUsed, external, rss } = process.memoryUsage();
    [cpu, at] = [process.cpuUsage(), performance.now()];
    return { cpuShare, heldBytes: heapUsed + external, rssBytes: rss };
  };
  process.on('message', async ({ what, value }: { what: string; value: never }) => {
    const answer = what === 'usage' ? usage : answers[what];
    if (!answer) throw new Error(`nothing is known of ${what}`);
    process.send?.({ value: await answer(value) });
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.('ready');
}
