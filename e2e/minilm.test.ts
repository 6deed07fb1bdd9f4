// A real model of embeddings: all-MiniLM-L6-v2, from its folder through relay, page and both gateways.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';
import golden from '../src/testing/golden/minilm/embeddings.json' with { type: 'json' };
import { TestBrowser, waitUntilServing } from './harness/browser.ts';
import { skipGateway, testGateway } from './harness/gateway.ts';
import { post } from './harness/openai.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const model = join(packageRoot, 'models', 'minilm');
/** To which its tokenizer.json cuts and fills up. */
const TOKENIZER_LENGTH = 128;
const LOAD_BOUND_MS = 120_000;

const skip = !existsSync(model)
  ? 'there is no models/minilm: npm run model:minilm fetches it'
  : process.env.SHOAL_LONG !== '1'
    ? 'a test of the long tier: npm run test:long'
    : undefined;

function cosine(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, at) => sum + value * b[at]!, 0) / (Math.hypot(...a) * Math.hypot(...b));
}

describe.skipIf(skip !== undefined)(`all-MiniLM-L6-v2${skip === undefined ? '' : ` (skipped: ${skip})`}`, () => {
  let relay: TestRelay;
  let browser: TestBrowser;

  beforeAll(async () => {
    relay = await startRelay(['--model', model]);
    browser = await TestBrowser.launch();
    const page = await browser.open(`${relay.webUrl}/#join`);
    await waitUntilServing(page, LOAD_BOUND_MS);
  }, LOAD_BOUND_MS + 60_000);

  afterAll(async () => {
    await browser?.close();
    await relay?.command.stop();
  });

  test('gives the reference embeddings, by ids, by texts and all together', async () => {
    const client = schedulerClient(relay.grpc);
    for (const { ids, embedding } of golden.cases) {
      const answer = await client.embed({ tokenized: { inputIds: ids } });
      expect(cosine(answer.embedding, embedding)).toBeGreaterThan(0.9999);
    }
    const { response } = await client.embed({ texts: golden.cases.map(({ text }) => text) });
    if (response.case !== 'complete') throw new Error('no complete');
    for (const [at, { values }] of response.value.batchEmbeddings.entries()) {
      expect(cosine(values, golden.cases[at]!.embedding)).toBeGreaterThan(0.9999);
    }
  }, 120_000);

  test.skipIf(skipGateway !== undefined).each([1, 2] as const)(
    "are what the gateway's generation %s makes of texts, however its tokenizer pads them",
    async (generation) => {
      const gateway = await testGateway(generation, relay.grpc, [], model);
      const ask = (input: string) => post(`${gateway.url}/v1/embeddings`, { model: 'minilm', input });
      try {
        await until('the gateway has the tokenizer', 30_000, async () => (await ask('hello')).ok);
        for (const { text, ids, embedding } of golden.cases) {
          // A gateway takes no empty text, and this tokenizer cuts what is longer.
          if (text === '' || ids.length > TOKENIZER_LENGTH) continue;
          const { data } = (await (await ask(text)).json()) as { data: { embedding: number[] }[] };
          expect(cosine(data[0]!.embedding, embedding)).toBeGreaterThan(0.9999);
        }
      } finally {
        await gateway.close();
      }
    },
    120_000,
  );
});
