import { type Gateway, startGateway } from '../../src/cli/gateway-process.ts';
import type { Generation } from '../../src/cli/gateway-venv.ts';
import { bundledModel } from '../../src/cli/paths.ts';
import type { HostPort } from '../../src/cli/values.ts';

/** Why the gateways' tests are skipped; undefined where they run. */
export const skipGateway = process.env.SHOAL_SKIP_GATEWAY;

export interface TestGateway extends Gateway {
  /** Its log so far. */
  readonly lines: readonly string[];
}

/** A real gateway that checks the relay's health every second. */
export async function testGateway(
  generation: Generation,
  relay: HostPort,
  extraArgs: readonly string[] = [],
  /** Generation 1 can't ask the relay for it. */
  tokenizerDir = bundledModel,
): Promise<TestGateway> {
  const lines: string[] = [];
  const gateway = await startGateway({
    generation,
    host: '127.0.0.1',
    port: 0,
    relay,
    tokenizerDir,
    extraArgs: ['--health-check-interval-secs', '1', '--health-success-threshold', '1', ...extraArgs],
    log: (line) => lines.push(line),
    boundMs: 60_000,
  });
  const close = async () => {
    // It would wait some seconds for load balancers in front of it.
    gateway.process.kill('SIGKILL');
    await gateway.exited;
  };
  return { ...gateway, lines, close };
}
