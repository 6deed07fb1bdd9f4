// The real gateway of generation 2 in front of a relay and a page in a real browser.
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import { TestBrowser } from './harness/browser.ts';
import { skipGateway, type TestGateway, testGateway } from './harness/gateway.ts';
import { COMPLETION, cases, PROMPT } from './harness/golden.ts';
import { type ChatChoice, type Completion, events, gather, post, postJson } from './harness/openai.ts';
import { metric, startRelay, type TestRelay } from './harness/relay.ts';
import { schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const BARE = cases.cases[0]!;
const [STOP] = cases.stops;
const model = 'stories260K';
const messages = [{ role: 'user' as const, content: PROMPT }];
const greedy = { model, temperature: 0 };
/** As long as this model can: time enough to leave while it runs. */
const LONG = { ...greedy, messages, max_tokens: 500, n: 4, temperature: 1, ignore_eos: true, stream: true };

describe.skipIf(skipGateway !== undefined)('generation 2', () => {
  let relay: TestRelay;
  let browser: TestBrowser;
  let gateway: TestGateway;
  let scheduler: SchedulerClient;
  const at = (path: string) => `${gateway.url}${path}`;

  beforeAll(async () => {
    relay = await startRelay();
    browser = await TestBrowser.launch();
    await browser.serve(relay.webUrl);
    gateway = await testGateway(2, relay.grpc);
    scheduler = schedulerClient(relay.grpc);
    await until('the gateway lists the model', 10_000, async () => {
      const list = (await (await fetch(at('/v1/models'))).json()) as { data: { id: string }[] };
      return list.data.some(({ id }) => id === model);
    });
  });

  afterAll(async () => {
    await gateway?.close();
    await browser?.close();
    await relay?.command.stop();
  });

  test('a chat completion is the reference text, counted', async () => {
    const { choices, usage } = await postJson(at('/v1/chat/completions'), { ...greedy, messages, max_tokens: 196 });
    expect(choices).toHaveLength(1);
    expect(choices[0]!.message!.content).toBe(COMPLETION);
    expect(choices[0]!.finish_reason).toBe('length');
    expect(usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 196, total_tokens: 201 });
  });

  test('a streamed chat completion is the same, every token in one chunk', async () => {
    const stream = { stream: true, stream_options: { include_usage: true } };
    const body = { ...greedy, messages, max_tokens: 196, ...stream };
    const { texts, pieces, finishReasons, usage } = await gather(await post(at('/v1/chat/completions'), body));
    expect(texts).toEqual([COMPLETION]);
    expect(finishReasons).toEqual(['length']);
    expect(usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 196, total_tokens: 201 });
    // A token without text of its own makes no event; two never share one.
    expect(pieces[0]!.length).toBeGreaterThan(170);
    expect(pieces[0]!.length).toBeLessThanOrEqual(196);
  });

  test('a completion goes on from the bare prompt, streamed and not', async () => {
    const body = { ...greedy, prompt: PROMPT, max_tokens: BARE.greedy.length };
    const text = BARE.greedy_text.slice(PROMPT.length);
    const whole = await postJson(at('/v1/completions'), body);
    expect(whole.choices[0]!.text).toBe(text);
    expect(whole.choices[0]!.finish_reason).toBe('length');
    expect(whole.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: BARE.greedy.length });
    const streamed = await gather(await post(at('/v1/completions'), { ...body, stream: true }));
    expect(streamed.texts).toEqual([text]);
    expect(streamed.finishReasons).toEqual(['length']);
  });

  interface Generation {
    readonly text: string;
    readonly output_ids: number[];
    readonly meta_info: {
      readonly finish_reason: { readonly type: string };
      readonly prompt_tokens: number;
      readonly completion_tokens: number;
    };
  }

  test('/generate gives text, ids and counts', async () => {
    const body = { model, text: PROMPT, sampling_params: { temperature: 0, max_new_tokens: BARE.greedy.length } };
    const answer = await postJson<Generation | Generation[]>(at('/generate'), body);
    const [generation] = Array.isArray(answer) ? answer : [answer];
    expect(generation!.text).toBe(BARE.greedy_text.slice(PROMPT.length));
    expect(generation!.output_ids).toEqual(BARE.greedy);
    expect(generation!.meta_info).toMatchObject({ prompt_tokens: 4, completion_tokens: BARE.greedy.length });
    expect(generation!.meta_info.finish_reason.type).toBe('length');
  });

  test('n = 2 makes two choices, streamed and not', async () => {
    const body = { ...greedy, messages, max_tokens: 30, n: 2 };
    const whole = await postJson(at('/v1/chat/completions'), body);
    expect(whole.choices.map(({ index }) => index)).toEqual([0, 1]);
    const [first, second] = whole.choices.map(({ message }) => message!.content);
    expect(first).toBe(second);
    expect(COMPLETION.startsWith(first!)).toBe(true);
    expect(whole.usage!.completion_tokens).toBe(60);
    const streamed = await gather(await post(at('/v1/chat/completions'), { ...body, stream: true }));
    expect(streamed.texts).toEqual([first, first]);
    expect(streamed.finishReasons).toEqual(['length', 'length']);

    const random = { ...body, temperature: 1.5, max_tokens: 40 };
    const { choices } = await postJson(at('/v1/chat/completions'), random);
    expect(choices[0]!.message!.content).not.toBe(choices[1]!.message!.content);
  });

  test('logprobs and the best alternatives', async () => {
    const golden = cases.cases[1]!;
    const wanted = { logprobs: true, top_logprobs: 5 };
    const body = { ...greedy, messages, max_tokens: 30, ...wanted };
    const check = (content: NonNullable<NonNullable<ChatChoice['logprobs']>['content']>) => {
      expect(content).toHaveLength(30);
      for (const [i, { logprob, top_logprobs }] of content.entries()) {
        expect(Math.abs(logprob - golden.output_logprobs[i]!)).toBeLessThan(cases.tolerance.logprob);
        const best = (golden.output_top5[i] as [number, number][]).map(([, value]) => value);
        expect(top_logprobs).toHaveLength(5);
        for (const [k, each] of top_logprobs.entries()) {
          expect(Math.abs(each.logprob - best[k]!)).toBeLessThan(cases.tolerance.logprob);
        }
      }
    };
    const whole = await postJson(at('/v1/chat/completions'), body);
    check(whole.choices[0]!.logprobs!.content!);
    const streamed: ChatChoice[] = [];
    for await (const event of events(await post(at('/v1/chat/completions'), { ...body, stream: true }))) {
      streamed.push(...event.choices);
    }
    check(streamed.flatMap(({ logprobs }) => logprobs?.content ?? []));
  });

  test('a stop string ends the text before it', async () => {
    const body = { ...greedy, messages, max_tokens: STOP!.max_new_tokens, stop: STOP!.stop };
    const expected = STOP!.text.slice(0, STOP!.text.indexOf(STOP!.stop[0]!));
    const whole = await postJson(at('/v1/chat/completions'), body);
    expect(whole.choices[0]!.message!.content).toBe(expected);
    expect(whole.choices[0]!.finish_reason).toBe('stop');
    const streamed = await gather(await post(at('/v1/chat/completions'), { ...body, stream: true }));
    expect(streamed.texts).toEqual([expected]);
    expect(streamed.finishReasons).toEqual(['stop']);
  });

  test('the end of the story is a stop', async () => {
    const [ending] = cases.eos;
    const body = { ...greedy, messages, max_tokens: 400 };
    const { choices, usage } = await postJson(at('/v1/chat/completions'), body);
    expect(choices[0]!.finish_reason).toBe('stop');
    expect(choices[0]!.message!.content).toBe(ending!.text);
    expect(usage!.completion_tokens).toBe(ending!.output_ids.length);
  });

  test("the client's mistake is a 400 with the reason", async () => {
    const response = await post(at('/v1/completions'), { ...greedy, prompt: `${PROMPT} `.repeat(200), max_tokens: 5 });
    expect(response.status).toBe(400);
    expect(await response.text()).toMatch(/context|too long|512/i);
  });

  test('a client that leaves ends the work of its request', async () => {
    const loads = async () => (await scheduler.getLoads({})).loads[0]!;
    const abortedBefore = await metric(relay.webUrl, 'sglang:num_aborted_requests_total');
    const response = await post(at('/v1/chat/completions'), LONG);
    for await (const event of events(response)) {
      if (!event.choices.some(({ delta }) => delta?.content)) continue;
      expect((await loads()).numRunningReqs).toBeGreaterThan(0);
      // Ending the loop closes the connection.
      break;
    }
    await until('the relay has no request left', 5_000, async () => (await loads()).numTotalReqs === 0);
    // It did not run to its end.
    expect(await metric(relay.webUrl, 'sglang:num_aborted_requests_total')).toBe(abortedBefore + 1);
    // And what follows is unharmed.
    const { choices } = await postJson(at('/v1/chat/completions'), { ...greedy, messages, max_tokens: 20 });
    expect(COMPLETION.startsWith(choices[0]!.message!.content)).toBe(true);
  });

  test("OpenAI's client library works, streamed and not", async () => {
    const openai = new OpenAI({ baseURL: at('/v1'), apiKey: 'none', maxRetries: 0, timeout: 50_000 });
    const whole = await openai.chat.completions.create({ ...greedy, messages, max_tokens: 50 });
    const text = whole.choices[0]!.message.content!;
    expect(COMPLETION.startsWith(text)).toBe(true);
    expect(text.length).toBeGreaterThan(80);
    let streamed = '';
    const stream = await openai.chat.completions.create({ ...greedy, messages, max_tokens: 50, stream: true });
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? '';
    expect(streamed).toBe(text);
  });

  test('16 clients at once get what each gets alone', async () => {
    const body = { ...greedy, messages, max_tokens: 40 };
    const alone = await postJson(at('/v1/chat/completions'), body);
    const together = await Promise.all(
      Array.from({ length: 16 }, () => postJson<Completion>(at('/v1/chat/completions'), body)),
    );
    for (const { choices } of together) expect(choices[0]!.message).toEqual(alone.choices[0]!.message);
  });
});
