// One relay, one page in a real browser, straight over gRPC.
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import { TestBrowser } from './harness/browser.ts';
import { cases, OUTPUT_IDS, PROMPT, PROMPT_IDS, reference } from './harness/golden.ts';
import { expectNear, expectTop, type Pair } from './harness/near.ts';
import { Command, shoalScript, systemNode, userEnvironment } from './harness/processes.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

let relay: TestRelay;
let browser: TestBrowser;
let client: SchedulerClient;

beforeAll(async () => {
  // The user's own Node starts the command; where it is older than 22, the command brings another for the relay.
  relay = await startRelay([], systemNode());
  browser = await TestBrowser.launch();
  await browser.serve(relay.webUrl);
  client = schedulerClient(relay.grpc);
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

async function shoal(...args: string[]) {
  const command = new Command(systemNode(), [shoalScript, ...args, '--relay', `127.0.0.1:${relay.grpc.port}`]);
  const code = await command.exited;
  return { code, stdout: command.stdout, stderr: command.stderr };
}

describe('shoal generate', () => {
  test('prints the reference text and its ids', async () => {
    const flags = ['--temperature', '0', '--max-new-tokens', '196', '--json'];
    const { code, stdout, stderr } = await shoal('generate', '--prompt', PROMPT, ...flags);
    expect(stderr).toEqual([]);
    expect(code).toBe(0);
    expect(stdout.slice(0, -1).join('\n')).toBe(reference.text);
    expect(JSON.parse(stdout.at(-1)!)).toMatchObject({
      prompt_ids: PROMPT_IDS,
      output_ids: OUTPUT_IDS,
      finish_reason: 'length',
      prompt_tokens: 5,
      completion_tokens: 196,
    });
  });

  test('is repeatable with a seed, and differs with another', async () => {
    const run = async (seed: string) => {
      const flags = ['--temperature', '1', '--max-new-tokens', '40', '--seed', seed, '--json'];
      const { stdout } = await shoal('generate', '--prompt', PROMPT, ...flags);
      return JSON.parse(stdout.at(-1)!).output_ids as number[];
    };
    const first = await run('1');
    expect(first.length).toBeGreaterThan(0);
    expect(await run('1')).toEqual(first);
    expect(await run('2')).not.toEqual(first);
  });

  test('takes a whole request, and prints the whole result', async () => {
    const request = {
      request_id: 'from-stdin',
      tokenized: { input_ids: PROMPT_IDS },
      sampling_params: { max_new_tokens: 196 },
      return_logprob: true,
      top_logprobs_num: 5,
    };
    const address = `127.0.0.1:${relay.grpc.port}`;
    const flags = [
      '--request',
      '-',
      '--json',
      '--max-new-tokens',
      '8',
      '--token-ids-logprob',
      '5',
      '--return-hidden-states',
    ];
    const { status, stdout, stderr } = spawnSync(
      systemNode(),
      [shoalScript, 'generate', '--relay', address, ...flags],
      {
        input: JSON.stringify(request),
        encoding: 'utf8',
        env: userEnvironment(),
        timeout: 30_000,
      },
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const [text, json] = stdout.trimEnd().split('\n');
    expect(reference.text.startsWith(text!)).toBe(true);
    const result = JSON.parse(json!);
    const golden = cases.cases[1]!;
    expect(result).toMatchObject({
      request_id: 'from-stdin',
      prompt_ids: PROMPT_IDS,
      output_ids: OUTPUT_IDS.slice(0, 8),
      finish_reason: 'length',
    });
    for (const [name, tokens, expected] of [
      ['output', result.output_logprobs, golden.output_logprobs],
      ['input', result.input_logprobs, golden.input_logprobs],
    ]) {
      expect(tokens, name).toHaveLength(name === 'output' ? 8 : PROMPT_IDS.length);
      for (const [i, { logprob, top_logprobs, token_ids_logprob }] of tokens.entries()) {
        if (expected[i] === null) expect(logprob).toBeNull();
        else expect(Math.abs(logprob - expected[i])).toBeLessThan(cases.tolerance.logprob);
        const first = name === 'input' && i === 0;
        expect(top_logprobs).toHaveLength(first ? 0 : 5);
        expect(token_ids_logprob.map(([id]: [number]) => id)).toEqual(first ? [] : [5]);
      }
    }
    expect(result.hidden_states.map(({ position }: { position: number }) => position)).toEqual([
      4, 5, 6, 7, 8, 9, 10, 11,
    ]);
    for (const [i, value] of golden.last_prompt_hidden.entries()) {
      expect(Math.abs(result.hidden_states[0].values[i] - value)).toBeLessThan(cases.tolerance.hidden);
    }
  });

  test('a request that cannot be served is one sentence', async () => {
    const { code, stdout, stderr } = await shoal('generate', '--prompt', `${PROMPT} `.repeat(200));
    expect(code).toBe(1);
    expect(stderr.join('\n')).toMatch(/^error: the relay at .* answers INVALID_ARGUMENT: .*$/);
    expect(stdout).toEqual([]);
  });
});

test('shoal loads shows the page as rank 0', async () => {
  const { code, stdout } = await shoal('loads');
  expect(code).toBe(0);
  expect(stdout).toHaveLength(2);
  expect(stdout[1]!.trim()).toMatch(/^0 +0 +0 +\d+ +\d+\/\d+ /);
});

describe('greedy cases', () => {
  test.each(
    cases.cases.map((each) => [`${JSON.stringify(each.prompt)}${each.bos ? ' after BOS' : ''}`, each] as const),
  )('%s: ids, logprobs and the five best', async (_, { ids, greedy, output_logprobs, output_top5 }) => {
    const generated = await collect(
      client,
      greedyRequest(ids, { maxNewTokens: greedy.length, ignoreEos: true }, { returnLogprob: true, topLogprobsNum: 5 }),
    );
    const chunks = generated.chunks[0]!;
    const complete = generated.completes[0]!;
    expect(complete.outputIds).toEqual(greedy);
    expect(complete.finishReason).toBe('length');
    expect(complete.promptTokens).toBe(ids.length);

    // Every token in exactly one chunk, one a chunk, counted on.
    expect(chunks.map((chunk) => chunk.tokenIds)).toEqual(greedy.map((id) => [id]));
    expect(chunks.map((chunk) => chunk.completionTokens)).toEqual(greedy.map((_, i) => i + 1));

    for (const [i, chunk] of chunks.entries()) {
      const { tokenLogprobs, tokenIds, topLogprobs } = chunk.outputLogprobs!;
      expect(tokenIds).toEqual([greedy[i]]);
      expect(Math.abs(tokenLogprobs[0]! - output_logprobs[i]!)).toBeLessThan(cases.tolerance.logprob);
      expectTop(topLogprobs[0]!, output_top5[i] as unknown as Pair[]);
    }
  });

  test('logprobs come after the temperature', async () => {
    for (const { ids, 'temperature_0.7': expected } of cases.cases) {
      // The best one of one: the greedy path at a temperature.
      const sampling = { maxNewTokens: expected.ids.length, ignoreEos: true, temperature: 0.7, topK: 1 };
      const generated = await collect(client, greedyRequest(ids, sampling, { returnLogprob: true, topLogprobsNum: 5 }));
      expect(idsOf(generated)).toEqual(expected.ids);
      const { tokenLogprobs, topLogprobs } = generated.completes[0]!.outputLogprobs!;
      expectNear(tokenLogprobs, expected.output_logprobs, cases.tolerance.logprob);
      for (const [i, top] of topLogprobs.entries()) expectTop(top, expected.output_top5[i] as unknown as Pair[]);
    }
  });
});

describe('stops', () => {
  test.each(cases.stops.map((each) => [JSON.stringify(each.stop), each] as const))(
    'at the strings %s',
    async (_, { ids, stop, max_new_tokens, output_ids, finish_reason, matched_stop, ...each }) => {
      const {
        frequency_penalty: frequencyPenalty = 0,
        presence_penalty: presencePenalty = 0,
        logit_bias: logitBias = {},
      } = each.params ?? {};
      const penalties = { frequencyPenalty, presencePenalty, logitBias };
      const generated = await collect(
        client,
        greedyRequest(ids, { maxNewTokens: max_new_tokens, ignoreEos: true, stop, ...penalties }),
      );
      const complete = generated.completes[0]!;
      expect(idsOf(generated)).toEqual(output_ids);
      expect(complete.outputIds).toEqual(output_ids);
      expect(complete.finishReason).toBe(finish_reason);
      expect(complete.matchedStop.value ?? null).toBe(matched_stop);
    },
  );

  test.each(cases.eos.map((each) => [JSON.stringify(each.params), each] as const))(
    'at EOS and ids, %s',
    async (_, { ids, params, output_ids, finish_reason, matched_stop }) => {
      const stopTokenIds = (params as { stop_ids?: number[] }).stop_ids ?? [];
      const generated = await collect(
        client,
        greedyRequest(ids, { maxNewTokens: params.max_new_tokens, stopTokenIds }),
      );
      const complete = generated.completes[0]!;
      // The stop token itself is in the last chunk, and counted.
      expect(idsOf(generated)).toEqual(output_ids);
      expect(complete.completionTokens).toBe(output_ids.length);
      expect(complete.finishReason).toBe(finish_reason);
      expect(complete.matchedStop.value ?? null).toBe(matched_stop);
    },
  );
});

test('two requests at once make the ids that each makes alone', async () => {
  const [first, second] = [cases.cases[2]!, cases.cases[1]!];
  // Over twice the credit: neither can be made at one go.
  const request = ({ ids }: (typeof cases.cases)[number]) => greedyRequest(ids, { maxNewTokens: 150, ignoreEos: true });
  const alone = [await collect(client, request(first)), await collect(client, request(second))];
  const together = await Promise.all([collect(client, request(first)), collect(client, request(second))]);
  expect(together.map((each) => idsOf(each))).toEqual(alone.map((each) => idsOf(each)));
  expect(idsOf(together[0]!).slice(0, first.greedy.length)).toEqual(first.greedy);
  expect(idsOf(together[1]!)).toEqual(OUTPUT_IDS.slice(0, 150));
  // They did run at once: each had a token before the other's last.
  expect(together[0]!.times[0]).toBeLessThan(together[1]!.times.at(-1)!);
  expect(together[1]!.times[0]).toBeLessThan(together[0]!.times.at(-1)!);
});

test('samples of one request are told apart and complete', async () => {
  const generated = await collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens: 20, temperature: 1.5, n: 3 }));
  expect(generated.completes).toHaveLength(3);
  for (const [index, complete] of generated.completes.entries()) {
    expect(idsOf(generated, index)).toEqual(complete.outputIds);
  }
  const distinct = new Set(generated.completes.map((complete) => complete.outputIds.join()));
  expect(distinct.size).toBeGreaterThan(1);
});

test('the page has written no error to its console', () => {
  expect(browser.errors).toEqual([]);
});
