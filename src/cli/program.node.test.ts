import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { afterEach, expect, test } from 'vitest';
import { type GenerateRequest, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import reference from '../testing/golden/stories260K-reference.json' with { type: 'json' };
import { freePort } from './net.ts';
import { bundledModel } from './paths.ts';
import { runProgram } from './program.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function run(...args: string[]) {
  let stdout = '';
  let stderr = '';
  const outcome = await runProgram(args, '1.2.3', {
    write: (text) => {
      stdout += text;
    },
    writeError: (text) => {
      stderr += text;
    },
  });
  return { ...outcome, stdout, stderr };
}

/** A scheduler that answers as the test says, over real gRPC. */
async function stubRelay(routes: Partial<ServiceImpl<typeof SglangScheduler>>): Promise<string> {
  const server = createServer(connectNodeAdapter({ routes: (router) => router.service(SglangScheduler, routes) }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const COMMANDS = ['start', 'relay', 'node', 'generate', 'embed', 'loads', 'gateway'];

test('help names every command and every command has help', async () => {
  const help = await run('--help');
  expect(help.code).toBe(0);
  for (const name of COMMANDS) {
    expect(help.stdout).toContain(`\n  ${name} `);
    const own = await run(name, '--help');
    expect(own.code).toBe(0);
    expect(own.stdout).toContain(`Usage: shoal ${name}`);
  }
});

test("the version is the package's", async () => {
  expect(await run('--version')).toMatchObject({ code: 0, stdout: '1.2.3\n' });
});

test.each([
  [['--nonsense']],
  [['swim']],
  [['relay', '--nonsense']],
  [['relay', '--port', 'abc']],
  [['relay', '--lease', '0']],
  [['relay', '--heartbeat', '1y']],
  [['relay', '--queue-wait', '0']],
  [['relay', '--first-token-wait', '0s']],
  [['start', '--request-limit', '25h']],
  [['relay', '--max-queued', '-1']],
  [['relay', '--max-queued', '1.5']],
  [['relay', '--ranks', '0']],
  [['relay', '--max-lora-rank', '0']],
  [['start', '--ranks', '1025']],
  [['relay', '--schedule-policy', 'lifo']],
  [['start', 'surplus']],
  [['node']],
  [['start', '--tune', 'never']],
  [['node', '--relay', 'http://127.0.0.1:1', '--precision', 'f16']],
  [['start', '--speculation', 'on']],
  [['node', '--relay', '127.0.0.1:8080']],
  [['generate']],
  [['generate', '--prompt', 'x', '--temperature', '-1']],
  [['generate', '--prompt', 'x', '--seed', '1.5']],
  [['generate', '--prompt', 'x', '--relay', 'nowhere']],
  [['loads', '--relay', 'http://127.0.0.1:1']],
  [['gateway', '--generation', '3']],
])('%j exits 2 with one sentence', async (args) => {
  const { code, stdout, stderr, message } = await run(...args);
  expect(code).toBe(2);
  expect(stdout).toBe('');
  expect(message).toBeUndefined();
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
});

test('a lease shorter than three heartbeats is a bad value', async () => {
  const { code, message } = await run('relay', '--lease', '1s', '--heartbeat', '400ms');
  expect(code).toBe(2);
  expect(message).toBe('the --lease must be at least three times the --heartbeat.');
});

test.each(['relay', 'start'])("%s's help tells the limits of requests, and their defaults", async (command) => {
  const help = (await run(command, '--help')).stdout.replace(/\s+/g, ' ');
  for (const [flag, value] of [
    ['--queue-wait <time>', '2m'],
    ['--first-token-wait <time>', '5m'],
    ['--request-limit <time>', '60m'],
    ['--max-queued <n>', '1024'],
  ]) {
    expect(help).toMatch(new RegExp(`${flag} [^-]+\\(default: ${value}\\)`));
  }
  expect(help).toContain('(choices: "lpm", "fcfs", "priority", default: "lpm")');
});

test('a folder without a model is named', async () => {
  const { code, message } = await run('relay', '--model', '/nonexistent-model');
  expect(code).toBe(1);
  expect(message).toMatch(/no model at .*nonexistent-model/);
});

test('an adapter that is none is named, in a sentence', async () => {
  const { code, message } = await run(
    'relay',
    '--port',
    '0',
    '--web-port',
    '0',
    '--lora',
    'pirate=/nonexistent-adapter',
  );
  expect(code).toBe(1);
  expect(message).toMatch(/^--lora pirate=\/nonexistent-adapter: lora_path must be a folder .*adapter_config\.json/);
});

test('no relay there is said in a sentence', async () => {
  const port = await freePort();
  for (const args of [
    ['generate', '--prompt', 'x', '--relay', `127.0.0.1:${port}`],
    ['loads', '--relay', `127.0.0.1:${port}`],
    ['node', '--relay', `http://127.0.0.1:${port}`],
  ]) {
    const { code, message, stdout } = await run(...args);
    expect(code).toBe(1);
    expect(message).toMatch(new RegExp(`no relay at .*127\\.0\\.0\\.1:${port}`));
    expect(stdout).toBe('');
  }
});

test('generate sends the prompt with BOS, streams text and ends with ids and counts', async () => {
  const ids = reference.greedy_ids_from_bos;
  let seen: GenerateRequest | undefined;
  const relay = await stubRelay({
    getModelInfo: () => ({ modelPath: bundledModel, tokenizerPath: bundledModel }),
    async *generate(request: GenerateRequest) {
      seen = request;
      const output = ids.slice(5);
      for (const [i, id] of output.entries()) {
        yield {
          response: { case: 'chunk' as const, value: { tokenIds: [id], promptTokens: 5, completionTokens: i + 1 } },
        };
      }
      yield {
        response: {
          case: 'complete' as const,
          value: { outputIds: output, finishReason: 'length', promptTokens: 5, completionTokens: output.length },
        },
      };
    },
  });
  const flags = ['--temperature', '0', '--max-new-tokens', '196', '--seed', '7', '--json', '--relay', relay];
  const { code, stdout, message } = await run('generate', '--prompt', 'Once upon a time', ...flags);
  expect(message).toBeUndefined();
  expect(code).toBe(0);
  expect(seen?.tokenized?.inputIds).toEqual(ids.slice(0, 5));
  expect(seen?.samplingParams).toMatchObject({ temperature: 0, maxNewTokens: 196, customParams: { seed: 7 } });
  expect(seen?.stream).toBe(true);

  const lines = stdout.trimEnd().split('\n');
  const result = JSON.parse(lines.pop()!);
  expect(lines.join('\n')).toBe(reference.text);
  expect(result).toMatchObject({
    prompt_ids: ids.slice(0, 5),
    output_ids: ids.slice(5),
    finish_reason: 'length',
    prompt_tokens: 5,
    completion_tokens: 196,
  });
});

test('generate names the status of a refused request', async () => {
  const relay = await stubRelay({
    getModelInfo: () => ({ tokenizerPath: bundledModel }),
    // biome-ignore lint/correctness/useYield: the refusal comes before any message
    async *generate() {
      throw new ConnectError('no node is serving', Code.Unavailable);
    },
  });
  const { code, message } = await run('generate', '--prompt', 'x', '--relay', relay);
  expect(code).toBe(1);
  expect(message).toBe(`the relay at ${relay} answers UNAVAILABLE: no node is serving`);
});

test('a stream that ends without a result is an error', async () => {
  const relay = await stubRelay({
    getModelInfo: () => ({ tokenizerPath: bundledModel }),
    async *generate() {
      yield { response: { case: 'chunk' as const, value: { tokenIds: [403] } } };
    },
  });
  expect(await run('generate', '--prompt', 'x', '--relay', relay)).toMatchObject({ code: 1, message: /without/ });
});

test('loads prints a row for each node, or JSON', async () => {
  const relay = await stubRelay({
    getLoads: () => ({
      loads: [
        {
          dpRank: 0,
          numRunningReqs: 2,
          maxTotalNumTokens: 4096,
          numUsedTokens: 64,
          tokenUsage: 0.0156,
          utilization: 0.25,
          numWaitingUncachedTokens: 33,
          memory: { weightGb: 0.001, kvCacheGb: 1.5 },
          queues: { retracted: 4, grammar: 1 },
        },
        { dpRank: 3, genThroughput: 12.34 },
      ],
    }),
  });
  const table = await run('loads', '--relay', relay);
  expect(table.code).toBe(0);
  const [head, first, second] = table.stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.trim().split(/\s{2,}/));
  expect(Object.fromEntries(head!.map((name, i) => [name, first![i]]))).toEqual({
    rank: '0',
    running: '2',
    waiting: '0',
    'max running': '0',
    'KV tokens': '64/4096',
    'KV use': '1.6%',
    utilization: '25.0%',
    'tokens/s': '0.0',
    'cache hits': '0.0%',
    'uncached waiting': '33',
    'in grammar': '1',
    paused: '0',
    retracted: '4',
    weights: '1.0 MiB',
    'KV memory': '1.50 GiB',
  });
  expect(second?.[0]).toBe('3');
  expect(second).toContain('12.3');
  // What is not told is no zero.
  expect(second?.slice(-5)).toEqual(['-', '-', '-', '-', '-']);
  const json = JSON.parse((await run('loads', '--json', '--relay', relay)).stdout);
  expect(json.loads.map((load: { dp_rank: number }) => load.dp_rank)).toEqual([0, 3]);
});

test('loads has columns for adapters and drafts where a node tells of some', async () => {
  const some = { lora: { slotsUsed: 1, slotsTotal: 2 }, speculative: { acceptRate: 0.5, acceptLength: 3 } };
  const table = async (loads: object[]) =>
    (await run('loads', '--relay', await stubRelay({ getLoads: () => ({ loads }) }))).stdout.trimEnd().split('\n');
  expect((await table([{ dpRank: 0 }]))[0]).not.toMatch(/adapters|draft/);
  const [head, none, drafting] = await table([{ dpRank: 0 }, { dpRank: 1, ...some }]);
  expect(head).toMatch(/adapters +drafts right +tokens a draft$/);
  expect(none).toMatch(/ - +- +-$/);
  expect(drafting).toMatch(/ 1\/2 +50\.0% +3\.00$/);
});

test('generate from a model that makes vectors is sent to embed', async () => {
  const folder = '/nonexistent-tokenizer';
  const relay = await stubRelay({ getModelInfo: () => ({ tokenizerPath: folder, servedModelName: 'minilm' }) });
  const { code, message } = await run('generate', '--prompt', 'x', '--relay', relay);
  expect(code).toBe(1);
  expect(message).toBe("the relay's model minilm generates no text: shoal embed asks it.");
});

test('loads says that no node is attached', async () => {
  const relay = await stubRelay({ getLoads: () => ({}) });
  expect((await run('loads', '--relay', relay)).stdout).toBe('No node is attached.\n');
});
