// The commands as a user runs them, in processes of their own, on the Node that the user has.
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parseHostPort } from '../src/cli/values.ts';
import { skipGateway } from './harness/gateway.ts';
import { COMPLETION, OUTPUT_IDS, PROMPT, PROMPT_IDS } from './harness/golden.ts';
import { postJson } from './harness/openai.ts';
import { Command, shoalScript, systemNode } from './harness/processes.ts';
import { startRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const HEADLESS = ['--headless', '--software-gpu'];

function shoal(...args: string[]): Command {
  const command = new Command(systemNode(), [shoalScript, ...args]);
  onTestFinished(async () => {
    await command.stop();
  });
  return command;
}

describe('start', () => {
  let start: Command;
  let address: string;
  let webUrl: string;

  beforeAll(() => {
    start = new Command(systemNode(), [shoalScript, 'start', '--port', '0', '--web-port', '0', ...HEADLESS]);
  });

  afterAll(async () => {
    await start.stop();
  });

  test('is ready within 20 s, and serves', async () => {
    const started = performance.now();
    await start.line(/^ready$/, 40_000);
    expect(performance.now() - started).toBeLessThan(20_000);
    // One line for each URL, then "ready", and nothing else.
    expect(start.stdout.at(-1)).toBe('ready');
    expect(start.stdout.slice(0, -1).every((line) => /^\S+ +(http|grpc):\/\/\S+$/.test(line))).toBe(true);
    webUrl = (await start.line(/^page +(http:\/\/\S+?)\/$/, 0))[1]!;
    address = (await start.line(/^worker +grpc:\/\/(\S+)$/, 0))[1]!;
    const generated = await collect(
      schedulerClient(parseHostPort(address)),
      greedyRequest(PROMPT_IDS, { maxNewTokens: 10 }),
    );
    expect(idsOf(generated)).toEqual(OUTPUT_IDS.slice(0, 10));
  });

  test.skipIf(skipGateway !== undefined)('takes the gateway that the gateway command puts before it', async () => {
    const gateway = shoal('gateway', '--relay', address, '--port', '0');
    await gateway.line(/^ready$/, 40_000);
    const [, url] = await gateway.line(/^gateway +(\S+)$/, 0);
    const { choices } = await postJson(`${url}/v1/chat/completions`, {
      model: 'stories260K',
      messages: [{ role: 'user', content: PROMPT }],
      temperature: 0,
      max_tokens: 20,
    });
    expect(COMPLETION.startsWith(choices[0]!.message!.content)).toBe(true);
    expect(await gateway.stop('SIGINT')).toBe(0);
  });

  test('ends with all that it started at Ctrl-C', async () => {
    const stopped = performance.now();
    expect(await start.stop('SIGINT')).toBe(0);
    expect(performance.now() - stopped).toBeLessThan(10_000);
    await expect(fetch(webUrl)).rejects.toThrow();
  });
});

test.skipIf(process.platform === 'win32')('an npm that is ended leaves nothing behind', async () => {
  const npm = new Command('npm', ['start', '--', '--port', '0', '--web-port', '0', ...HEADLESS]);
  onTestFinished(async () => {
    await npm.stop();
  });
  await npm.line(/^ready$/, 40_000);
  const [, webUrl] = await npm.line(/^page +(http:\/\/\S+?)\/$/, 0);
  expect((await fetch(`${webUrl}/healthz`)).status).toBe(200);
  npm.process.kill('SIGTERM');
  await until('the relay is gone', 12_000, async () =>
    fetch(`${webUrl}/healthz`).then(
      () => false,
      () => true,
    ),
  );
});

test('node serves for a relay elsewhere, and ends when it is told to', async () => {
  const relay = await startRelay();
  onTestFinished(async () => {
    await relay.command.stop();
  });
  const node = shoal('node', '--relay', relay.webUrl, ...HEADLESS);
  await node.line(/^ready$/, 40_000);
  const client = schedulerClient(relay.grpc);
  expect((await client.getLoads({})).loads).toHaveLength(1);
  expect(await node.stop('SIGTERM')).toBe(143);
  // It said Detach: gone long before its lease is over.
  await until('the relay has no node', 3_000, async () => (await client.getLoads({})).loads.length === 0);
});

test('a port in use is one sentence that names it', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  for (const args of [
    ['--port', String(port), '--web-port', '0'],
    ['--port', '0', '--web-port', String(port)],
  ]) {
    const relay = shoal('relay', ...args);
    expect(await relay.exited).toBe(1);
    expect(relay.stdout).toEqual([]);
    expect(relay.stderr).toHaveLength(1);
    expect(relay.stderr[0]).toMatch(new RegExp(`^error: port ${port} .* in use`));
  }
});

test("help and a bad flag, on the system's own Node", async () => {
  const help = shoal('--help');
  expect(await help.exited).toBe(0);
  expect(help.stdout.join('\n')).toMatch(/Usage: shoal/);
  const bad = shoal('relay', '--nonsense');
  expect(await bad.exited).toBe(2);
  expect(bad.stderr).toHaveLength(1);
});
