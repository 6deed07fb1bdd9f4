import { GrpcClient } from '../../src/relay/testing/grpc-client.ts';
import { portsOf, startRelay, type TestRelay } from './relay.ts';

const CONNECT_MS = 10_000;

/** How a relay's log tells that it put a node out, or failed over what a node said. */
const ACCUSES = /told what can't be|could not take the report in/;

/** Which has each session's end. */
function startTalking(args: readonly string[]): Promise<TestRelay> {
  return startRelay(args, undefined, undefined, { SHOAL_LOG: 'info' });
}

/** A relay in a process of its own that is killed, and comes back at its ports; and a gateway's channel to it. */
export class MortalRelay {
  readonly #args: readonly string[];
  #relay: TestRelay;
  readonly client: GrpcClient;
  #deaths = 0;
  #alive = true;
  readonly #said: string[][];

  private constructor(relay: TestRelay, args: readonly string[]) {
    this.#relay = relay;
    this.#args = args;
    this.#said = [relay.command.stdout, relay.command.stderr];
    // A gateway doesn't wait for long either.
    const reconnect = { 'grpc.initial_reconnect_backoff_ms': 100, 'grpc.max_reconnect_backoff_ms': 200 };
    this.client = new GrpcClient(relay.grpc.port, reconnect);
  }

  static async start(args: readonly string[]): Promise<MortalRelay> {
    return new MortalRelay(await startTalking(args), args);
  }

  get webUrl(): string {
    return this.#relay.webUrl;
  }

  get deaths(): number {
    return this.#deaths;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Lines of all its lives that accuse a node. */
  get accusations(): string[] {
    return this.#said.flat().filter((line) => ACCUSES.test(line));
  }

  /** Kills it without a word, and starts another at its ports. */
  async restart(): Promise<void> {
    this.#deaths++;
    this.#alive = false;
    await this.#relay.command.kill();
    this.#relay = await startTalking([...this.#args, ...portsOf(this.#relay)]);
    this.#said.push(this.#relay.command.stdout, this.#relay.command.stderr);
    // The channel tries again in its own time.
    await new Promise<void>((resolve, reject) => {
      this.client.channel.waitForReady(Date.now() + CONNECT_MS, (error) => (error ? reject(error) : resolve()));
    });
    this.#alive = true;
  }

  async close(): Promise<void> {
    this.client.close();
    await this.#relay.command.stop();
  }
}
