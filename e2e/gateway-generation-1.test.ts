// The gateway's first generation: one plain chat and one streamed.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestBrowser } from './harness/browser.ts';
import { skipGateway, type TestGateway, testGateway } from './harness/gateway.ts';
import { COMPLETION, PROMPT } from './harness/golden.ts';
import { gather, post, postJson } from './harness/openai.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';

const body = {
  model: 'stories260K',
  messages: [{ role: 'user', content: PROMPT }],
  temperature: 0,
  max_tokens: 196,
};

describe.skipIf(skipGateway !== undefined)('generation 1', () => {
  let relay: TestRelay;
  let browser: TestBrowser;
  let gateway: TestGateway;

  beforeAll(async () => {
    relay = await startRelay();
    browser = await TestBrowser.launch();
    await browser.serve(relay.webUrl);
    gateway = await testGateway(1, relay.grpc);
  });

  afterAll(async () => {
    await gateway?.close();
    await browser?.close();
    await relay?.command.stop();
  });

  test('a chat completion is the reference text, counted', async () => {
    const { choices, usage } = await postJson(`${gateway.url}/v1/chat/completions`, body);
    expect(choices[0]!.message!.content).toBe(COMPLETION);
    expect(choices[0]!.finish_reason).toBe('length');
    expect(usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 196 });
  });

  test('a streamed one is the same', async () => {
    const response = await post(`${gateway.url}/v1/chat/completions`, { ...body, stream: true });
    const { texts, finishReasons } = await gather(response);
    expect(texts).toEqual([COMPLETION]);
    expect(finishReasons).toEqual(['length']);
  });
});
