// A real model: SmolLM2-135M-Instruct in Q4_1, from its .gguf through relay, page and gateway.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';
import golden from '../src/testing/golden/smollm2/chat.json' with { type: 'json' };
import gguf from '../src/testing/golden/smollm2-gguf.json' with { type: 'json' };
import { TestBrowser, waitUntilServing } from './harness/browser.ts';
import { skipGateway, type TestGateway, testGateway } from './harness/gateway.ts';
import { type Completion, post } from './harness/openai.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';

const model = join(packageRoot, 'models', 'smollm2', gguf.file);
const LOAD_BOUND_MS = 120_000;
const CHAT_BOUND_MS = 300_000;

const skip = !existsSync(model)
  ? 'there is no models/smollm2: npm run model:smollm2 fetches it'
  : process.env.SHOAL_LONG !== '1'
    ? 'a test of the long tier: npm run test:long'
    : undefined;

describe.skipIf(skip !== undefined)(`SmolLM2-135M-Instruct${skip === undefined ? '' : ` (skipped: ${skip})`}`, () => {
  let relay: TestRelay;
  let browser: TestBrowser;
  let page: Page;
  let gateway: TestGateway | undefined;

  let cache: string;

  beforeAll(async () => {
    cache = mkdtempSync(join(tmpdir(), 'shoal-cache-'));
    process.env.SHOAL_CACHE = cache;
    relay = await startRelay(['--model', model]);
    browser = await TestBrowser.launch();
    page = await browser.open(`${relay.webUrl}/#join`);
    await waitUntilServing(page, LOAD_BOUND_MS);
    if (skipGateway === undefined) gateway = await testGateway(2, relay.grpc);
  }, LOAD_BOUND_MS + 120_000);

  afterAll(async () => {
    await gateway?.close();
    await browser?.close();
    await relay?.command.stop();
    rmSync(cache, { recursive: true, force: true });
  });

  test(
    'greedy ids are the reference ones, as far as these are sure',
    async () => {
      const client = schedulerClient(relay.grpc);
      const answers = await Promise.all(
        golden.cases.map(({ ids, greedy }) =>
          collect(client, greedyRequest(ids, { temperature: 0, maxNewTokens: greedy.length, ignoreEos: true })),
        ),
      );
      for (const [i, { greedy, close_steps }] of golden.cases.entries()) {
        // Where the best two logits are so near, another exact implementation may part.
        const sure = close_steps[0] ?? greedy.length;
        expect(idsOf(answers[i]!).slice(0, sure)).toEqual(greedy.slice(0, sure));
      }
    },
    CHAT_BOUND_MS,
  );

  test.skipIf(skipGateway !== undefined)(
    'chats through the gateway, with the template and the ends of the .gguf',
    async () => {
      const { messages, ids, greedy, first_end_of_turn: end } = golden.cases[0]!;
      const body = { model: gguf.file.replace(/\.gguf$/, ''), messages, temperature: 0, max_tokens: 24 };
      const response = await post(`${gateway!.url}/v1/chat/completions`, body, AbortSignal.timeout(CHAT_BOUND_MS));
      const { choices, usage } = (await response.json()) as Completion;
      expect(choices[0]!.message!.content).toBe('The capital of France is Paris.');
      expect(choices[0]!.finish_reason).toBe('stop');
      expect(usage!.prompt_tokens).toBe(ids.length);
      // Whether the end of turn counts is the gateway's business.
      expect([end, end! + 1]).toContain(usage!.completion_tokens);
      expect(greedy[end!]).toBe(2);
    },
    CHAT_BOUND_MS,
  );
});
