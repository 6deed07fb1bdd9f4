import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { RelayOptions } from '../options.ts';
import { MODEL_DIR } from './relay-bench.ts';

interface Ports {
  readonly grpcPort: number;
  readonly webPort: number;
  readonly digest: string;
}

/** A relay in a child process, see relay-process.ts. */
export class ForkedRelay implements Ports {
  readonly grpcPort: number;
  readonly webPort: number;
  readonly digest: string;
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess, ports: Ports) {
    this.child = child;
    this.grpcPort = ports.grpcPort;
    this.webPort = ports.webPort;
    this.digest = ports.digest;
  }

  static async start(options: Partial<RelayOptions> = {}): Promise<ForkedRelay> {
    const all = {
      model: MODEL_DIR,
      build: { packageVersion: '0.0.0-test', pageHash: '0'.repeat(64) },
      grpcPort: 0,
      webPort: 0,
      ...options,
    };
    const script = new URL('./relay-process.ts', import.meta.url).pathname;
    const child = fork(script, [JSON.stringify(all)], {
      // The generated code has enums, which are more than types to strip.
      execArgv: ['--experimental-transform-types', '--no-warnings'],
    });
    const signal = AbortSignal.timeout(20_000);
    const [ports] = (await Promise.race([
      once(child, 'message', { signal }),
      once(child, 'exit', { signal }).then(() => Promise.reject(new Error('the relay did not start'))),
    ])) as [Ports];
    return new ForkedRelay(child, ports);
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** The longest that its event loop stood still since the last call, in milliseconds, and its memory. */
  async longestStall(): Promise<{ stallMs: number; rssMiB: number }> {
    this.child.send('longest stall');
    const [answer] = await once(this.child, 'message', { signal: AbortSignal.timeout(20_000) });
    return answer;
  }

  /** Makes its event loop stand still, in milliseconds of computing. */
  async stall(ms: number): Promise<void> {
    this.child.send(ms);
    await once(this.child, 'message', { signal: AbortSignal.timeout(20_000) });
  }

  end(): void {
    this.child.kill('SIGKILL');
  }
}
