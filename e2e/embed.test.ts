// Embeddings and scores of a page in a real browser, over gRPC and through both gateways.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { GOLDEN_SEQUENCES, goldenModel, largestDifference } from '../src/model/testing/golden-encoders.ts';
import { TOKEN_IDS, writeEncoderFolder } from '../src/testing/encoder-folder.node.ts';
import { expectAccessible } from './harness/accessible.ts';
import { TestBrowser } from './harness/browser.ts';
import { skipGateway, type TestGateway, testGateway } from './harness/gateway.ts';
import { post, postJson } from './harness/openai.ts';
import { Command, shoalScript, systemNode } from './harness/processes.ts';
import { metric, startRelay, type TestRelay } from './harness/relay.ts';
import { schedulerClient } from './harness/scheduler.ts';

const LONG = process.env.SHOAL_LONG === '1';
/** Of an f32 GPU against the reference. */
const TOLERANCE = 2e-3;

let home: string;
let browser: TestBrowser;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-e2e-embed-'));
  browser = await TestBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  rmSync(home, { recursive: true, force: true });
});

const ids = (...tokens: string[]) => tokens.map((token) => TOKEN_IDS.get(token)!);

/** Ids of the golden sequences, and what the model makes of them. */
async function references(model: string, tensor: string) {
  const golden = await goldenModel(model);
  const read = async (at: number) => ({
    inputIds: Array.from((await golden.sequence(at)).ids),
    tokenTypeIds: Array.from((await golden.sequence(at)).typeIds ?? []),
    expected: (await golden.golden(`${tensor}_${at}`))!,
  });
  return Promise.all(GOLDEN_SEQUENCES.map(read));
}

interface Embeddings {
  readonly data: readonly { readonly embedding: number[]; readonly index: number }[];
  readonly usage: { readonly prompt_tokens: number };
}

describe('a tiny BERT', () => {
  let relay: TestRelay;
  let page: Page;
  let gateway: TestGateway | undefined;
  beforeAll(async () => {
    relay = await startRelay(['--model', writeEncoderFolder(join(home, 'tiny-bert'), { name: 'bert', pools: true })]);
    page = await browser.serve(relay.webUrl);
    if (skipGateway === undefined) gateway = await testGateway(2, relay.grpc);
  });
  afterAll(async () => {
    await gateway?.close();
    await relay?.command.stop();
  });

  test('gives the reference vectors, one and many at a time, and the page says what it serves', async () => {
    const client = schedulerClient(relay.grpc);
    const golden = await references('bert', 'mean');
    const embed = async (inputIds: number[]) => (await client.embed({ tokenized: { inputIds } })).embedding;
    const alone: number[][] = [];
    for (const { inputIds, expected } of golden) {
      alone.push(await embed(inputIds));
      expect(largestDifference(alone.at(-1)!, expected)).toBeLessThan(TOLERANCE);
    }
    const turns = Array.from({ length: 12 }, (_, at) => at % golden.length);
    const together = await Promise.all(turns.map((which) => embed(golden[which]!.inputIds)));
    for (const [at, which] of turns.entries()) expect(together[at]).toEqual(alone[which]);
    expect(await metric(relay.webUrl, 'shoal:vectors_total')).toBe(golden.length + turns.length);
    await expect(client.embed({ tokenized: { inputIds: new Array(49).fill(5) } })).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
    expect(await page.getByText('makes embeddings').count()).toBeGreaterThan(0);
    await expectAccessible(page, 'a node of embeddings');
  });

  test.runIf(LONG)('the playground embeds texts, and shows how alike they are', async () => {
    const playground = await browser.open(`${relay.webUrl}/#playground`);
    await playground.getByLabel('One text a line').fill('the cat sat\nthe cat sat\na dog ran');
    await playground.getByRole('button', { name: 'Embed' }).click();
    const table = playground.getByRole('region', { name: 'Cosines' });
    await table.waitFor({ timeout: 10_000 });
    const cells = (await table.getByRole('cell').allTextContents()).map(Number);
    expect([cells.length, cells[1], cells[8]]).toEqual([9, 1, 1]);
    expect(cells[2]).toBeLessThan(1);
    await expectAccessible(playground, 'a playground of embeddings');
    await playground.close();
  });

  test.runIf(LONG)('shoal embed prints a vector, and how alike texts are', async () => {
    const shoal = async (...args: string[]) => {
      const address = `127.0.0.1:${relay.grpc.port}`;
      const command = new Command(systemNode(), [shoalScript, 'embed', ...args, '--relay', address]);
      return { code: await command.exited, stdout: command.stdout, stderr: command.stderr };
    };
    const one = await shoal('the cat sat');
    expect([one.code, one.stdout[0]!.split(' ').length]).toEqual([0, 48]);
    const alike = await shoal('the cat sat', 'the cat sat', 'a dog ran');
    const rows = alike.stdout.map((line) => line.split(' ').map(Number));
    expect(rows.map((row) => row.length)).toEqual([3, 3, 3]);
    expect([rows[0]![1], rows[2]![2]]).toEqual([1, 1]);
    expect(rows[0]![2]).toBe(rows[2]![0]);
    expect(rows[0]![2]).toBeLessThan(1);
    const refused = await shoal('a', 'b', '--pairs');
    expect([refused.code, refused.stderr.join(' ')]).toEqual([1, expect.stringContaining('is_cross_encoder')]);
  });

  test.runIf(LONG)('a page that leaves with requests under way leaves them to the next', async () => {
    const client = schedulerClient(relay.grpc);
    const second = await browser.serve(relay.webUrl);
    const { inputIds } = (await references('bert', 'mean'))[1]!;
    const expected = (await client.embed({ tokenized: { inputIds } })).embedding;
    const all = Promise.all(Array.from({ length: 60 }, () => client.embed({ tokenized: { inputIds } })));
    await second.close();
    for (const { embedding } of await all) expect(embedding).toEqual(expected);
  });

  describe.skipIf(skipGateway !== undefined)('through the second gateway generation', () => {
    test('/v1/embeddings is the vector of the text’s ids', async () => {
      const body = { model: 'tiny-bert', input: 'The cat sat.' };
      const { data, usage } = await postJson<Embeddings>(`${gateway!.url}/v1/embeddings`, body);
      const inputIds = ids('[CLS]', 'the', 'cat', 'sat', '.', '[SEP]');
      const { embedding } = await schedulerClient(relay.grpc).embed({ tokenized: { inputIds } });
      expect(usage.prompt_tokens).toBe(6);
      expect(data).toMatchObject([{ object: 'embedding', index: 0 }]);
      expect(data[0]!.embedding.map(Math.fround)).toEqual(embedding);
    });

    test('a text that is too long is a 400 that says why', async () => {
      const body = { model: 'tiny-bert', input: 'the cat '.repeat(60) };
      const response = await post(`${gateway!.url}/v1/embeddings`, body);
      const { error } = (await response.json()) as { error: { message: string } };
      // This generation counts itself, by what the relay told it.
      expect([response.status, error.message]).toEqual([400, expect.stringContaining('48 tokens')]);
    });

    test('/v1/rerank is not what this generation has for gRPC workers', async () => {
      const body = { model: 'tiny-bert', query: 'a cat', documents: ['the dog'] };
      expect((await post(`${gateway!.url}/v1/rerank`, body)).status).toBe(501);
    });
  });
});

describe('a tiny classifier', () => {
  let relay: TestRelay;
  beforeAll(async () => {
    const config = { id2label: { 0: 'relevant' }, label2id: { relevant: 0 } };
    const folder = writeEncoderFolder(join(home, 'tiny-scorer'), { name: 'bert-classifier', config });
    relay = await startRelay(['--model', folder]);
    await browser.serve(relay.webUrl);
  });
  afterAll(() => relay?.command.stop());

  test('gives the reference logits, and scores pairs of texts', async () => {
    const client = schedulerClient(relay.grpc);
    for (const { inputIds, tokenTypeIds, expected } of await references('bert-classifier', 'logits')) {
      const { embedding } = await client.embed({ tokenized: { inputIds }, tokenTypeIds });
      expect(largestDifference(embedding, expected)).toBeLessThan(TOLERANCE);
    }
    const texts = ['the cat', 'a dog', 'the cat', 'the sky is blue'];
    const { response } = await client.embed({ texts, isCrossEncoder: true });
    if (response.case !== 'complete') throw new Error('no complete');
    const pair = ids('[CLS]', 'the', 'cat', '[SEP]', 'a', 'dog', '[SEP]');
    const tokenTypeIds = [0, 0, 0, 0, 1, 1, 1];
    const first = await client.embed({ tokenized: { inputIds: pair }, tokenTypeIds });
    expect(response.value.batchEmbeddings.map(({ values }) => values.length)).toEqual([1, 1]);
    expect(response.value.batchEmbeddings[0]!.values).toEqual(first.embedding);
    expect(response.value.batchEmbeddings[1]!.values).not.toEqual(first.embedding);
    const stream = client.generate({ tokenized: { inputIds: [5] }, stream: true })[Symbol.asyncIterator]();
    const refusal = await stream.next().then(() => undefined, ConnectError.from);
    expect(refusal).toMatchObject({ code: Code.Unimplemented });
  });

  test.skipIf(skipGateway !== undefined)('/v1/classify names its class', async () => {
    const gateway = await testGateway(2, relay.grpc);
    try {
      const body = { model: 'tiny-scorer', input: 'the cat sat' };
      const { data } = await postJson<{ data: unknown[] }>(`${gateway.url}/v1/classify`, body);
      // Of one class the softmax, which is the gateway's, is 1.
      expect(data).toEqual([{ index: 0, label: 'relevant', probs: [1], num_classes: 1 }]);
    } finally {
      await gateway.close();
    }
  });
});
