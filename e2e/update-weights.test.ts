// UpdateWeights with a page in a real browser: it loads what the relay serves from then on, without a reload. The short tier
// has e2e/lora.test.ts for it, whose relay and page it shares.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-node';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SchedulerClient } from '../src/cli/scheduler-client.ts';
import { Operator } from '../src/contract/gen/operator_pb.ts';
import { writeOtherWeights } from '../src/relay/testing/other-weights.ts';
import { MODEL_DIR } from '../src/relay/testing/relay-bench.ts';
import { TestBrowser } from './harness/browser.ts';
import { skipGateway, testGateway } from './harness/gateway.ts';
import { OUTPUT_IDS, PROMPT, PROMPT_IDS } from './harness/golden.ts';
import { postJson } from './harness/openai.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

const TOKENS = 12;

let home: string;
let relay: TestRelay;
let browser: TestBrowser;
let client: SchedulerClient;
let page: Page;
let loads = 0;
describe.runIf(process.env.SHOAL_LONG === '1')('UpdateWeights', { timeout: 180_000 }, () => {
  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'shoal-e2e-weights-'));
    // Time enough for what runs only where it is short.
    relay = await startRelay(['--update-wait', '300ms']);
    browser = await TestBrowser.launch();
    page = await browser.serve(relay.webUrl);
    page.on('load', () => {
      loads++;
    });
    client = schedulerClient(relay.grpc);
  });
  afterAll(async () => {
    await browser?.close();
    await relay?.command.stop();
    rmSync(home, { recursive: true, force: true });
  });

  function update(value: string) {
    const operator = createClient(Operator, createGrpcWebTransport({ baseUrl: relay.webUrl, httpVersion: '1.1' }));
    return operator.updateWeights({ source: { case: 'diskPath', value } });
  }

  async function output(scheduler = client): Promise<number[]> {
    return idsOf(await collect(scheduler, greedyRequest(PROMPT_IDS, { maxNewTokens: TOKENS, ignoreEos: true })));
  }

  test('a page computes with the weights that came last, and what runs ends with the ones it began with', async () => {
    const plain = OUTPUT_IDS.slice(0, TOKENS);
    expect(await output()).toEqual(plain);
    const other = writeOtherWeights(join(home, 'other'), 1);
    let began = () => {};
    const first = new Promise<void>((resolve) => {
      began = resolve;
    });
    const long = greedyRequest(PROMPT_IDS, { maxNewTokens: 500, n: 4, ignoreEos: true });
    const cut = collect(client, long, { onChunk: () => began() });
    await within('the first token', 20_000, first);
    expect(await update(other)).toMatchObject({ success: true, message: 'Nodes that serve them: 1 of 1.' });
    const { completes, chunks } = await cut;
    expect(completes.map(({ finishReason }) => finishReason)).toEqual(Array(4).fill('abort'));
    // Of the old weights alone, however far they came.
    const told = chunks.map((one) => one.flatMap(({ tokenIds }) => tokenIds).slice(0, OUTPUT_IDS.length));
    for (const ids of told) expect(ids).toEqual(OUTPUT_IDS.slice(0, ids.length));
    const changed = await output();
    expect(changed).not.toEqual(plain);

    // What is no such model leaves these.
    const cropped = writeOtherWeights(join(home, 'cropped'), 2, ({ 'model.norm.weight': _, ...rest }) => rest);
    await expect(update(cropped)).rejects.toMatchObject({ code: Code.FailedPrecondition });
    expect(await output()).toEqual(changed);
    // And back: as the model of the start was.
    expect((await update(MODEL_DIR)).success).toBe(true);
    expect(await output()).toEqual(plain);
    expect([loads, browser.errors]).toEqual([0, []]);

    // Each is what a relay that starts with it gives, and a page takes any number of them.
    for (let step = 3; step < 7; step++) {
      expect((await update(writeOtherWeights(join(home, `step-${step}`), step))).success).toBe(true);
    }
    const last = await output();
    const fresh = await startRelay(['--model', join(home, 'step-6')]);
    try {
      await browser.serve(fresh.webUrl);
      expect(await output(schedulerClient(fresh.grpc))).toEqual(last);
    } finally {
      await fresh.command.stop();
    }
    expect((await update(MODEL_DIR)).success).toBe(true);
    expect(loads).toBe(0);
  });

  describe.skipIf(skipGateway !== undefined)('through a gateway', () => {
    test('requests that come while nodes load other weights wait, and the worker stays', async () => {
      const gateway = await testGateway(2, relay.grpc);
      try {
        const model = 'stories260K';
        await until('the gateway lists the model', 10_000, async () => {
          const list = (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: { id: string }[] };
          return list.data.some(({ id }) => id === model);
        });
        const ask = async () => {
          const body = { model, prompt: PROMPT, temperature: 0, max_tokens: 48 };
          return (await postJson(`${gateway.url}/v1/completions`, body)).choices[0]!.text;
        };
        const plain = await ask();
        const answers: Promise<string | undefined>[] = [];
        const asking = setInterval(() => answers.push(ask()), 100);
        try {
          expect((await update(join(home, 'step-6'))).success).toBe(true);
        } finally {
          clearInterval(asking);
        }
        const texts = await Promise.all(answers);
        const changed = await ask();
        expect(changed).not.toBe(plain);
        expect(texts.length).toBeGreaterThan(0);
        // One or the other, whole; 300 ms may cut the first.
        for (const text of texts) expect(changed === text || plain!.startsWith(text!), text).toBe(true);
      } finally {
        await gateway.close();
      }
    });
  });
});
