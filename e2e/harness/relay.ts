import { type HostPort, parseHostPort } from '../../src/cli/values.ts';
import { Command, node22, shoalScript, userEnvironment } from './processes.ts';

export interface TestRelay {
  readonly grpc: HostPort;
  readonly webUrl: string;
  readonly command: Command;
}

/** `shoal relay` in a process of its own, on free ports and without audits unless `args` say otherwise. */
export async function startRelay(
  args: readonly string[] = [],
  node = node22,
  script = shoalScript,
  env: NodeJS.ProcessEnv = {},
): Promise<TestRelay> {
  const all = [script, 'relay', '--port', '0', '--web-port', '0', '--audit-share', '0', ...args];
  const command = new Command(node, all, { ...userEnvironment(), ...env });
  try {
    const [, webUrl] = await command.line(/^page +(https?:\/\/\S+?)\/?$/, 20_000);
    const [, address] = await command.line(/^worker +grpc:\/\/(\S+)$/, 5_000);
    await command.line(/^ready$/, 5_000);
    return { grpc: parseHostPort(address!), webUrl: webUrl!, command };
  } catch (error) {
    await command.kill();
    throw error;
  }
}

export function portsOf({ grpc, webUrl }: TestRelay): string[] {
  return ['--port', String(grpc.port), '--web-port', new URL(webUrl).port];
}

/** The sum of a metric's values, over all labels. */
export async function metric(webUrl: string, name: string): Promise<number> {
  const text = await (await fetch(`${webUrl}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  if (lines.length === 0) throw new Error(`no metric ${name}`);
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}
