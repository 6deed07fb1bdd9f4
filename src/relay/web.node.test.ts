import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type GenerateResponse, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { parseRange } from './parse-range.ts';
import { MODEL_DIR, RelayBench, requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

let bench: RelayBench;
let pageDir: string;
beforeAll(async () => {
  pageDir = mkdtempSync(join(tmpdir(), 'shoal-page-'));
  writeFileSync(join(pageDir, 'index.html'), '<title>shoal</title>');
  bench = await RelayBench.start({ pageDir });
});
afterAll(async () => {
  await bench.end();
  rmSync(pageDir, { recursive: true });
});

const get = (path: string, headers: Record<string, string> = {}) => fetch(`${bench.webUrl}${path}`, { headers });

test('the page comes isolated', async () => {
  const answer = await get('/');
  expect(await answer.text()).toContain('<title>shoal</title>');
  expect(answer.headers.get('cross-origin-opener-policy')).toBe('same-origin');
  expect(answer.headers.get('cross-origin-embedder-policy')).toBe('require-corp');
  expect((await get('/../package.json')).status).toBe(404);
});

test('the manifest is the text that the digest is of', async () => {
  const text = await (await get('/model/manifest.json')).text();
  expect(createHash('sha256').update(text).digest('hex')).toBe(bench.relay.model.digest);
});

test('model files come whole, in ranges, and not at all where they are known', async () => {
  const name = 'model.safetensors';
  const whole = readFileSync(join(MODEL_DIR, name));
  const etag = `"${createHash('sha256').update(whole).digest('hex')}"`;
  const path = `/model/files/${name}`;
  const first = await get(path);
  expect([first.status, first.headers.get('etag')]).toEqual([200, etag]);
  expect(Buffer.from(await first.arrayBuffer()).equals(whole)).toBe(true);
  for (const [range, from, to] of [
    ['bytes=0-0', 0, 1],
    ['bytes=100-199', 100, 200],
    ['bytes=-50', whole.length - 50, whole.length],
    [`bytes=${whole.length - 5}-`, whole.length - 5, whole.length],
  ] as const) {
    const part = await get(path, { range, 'if-range': etag });
    expect(part.status).toBe(206);
    expect(part.headers.get('content-range')).toBe(`bytes ${from}-${to - 1}/${whole.length}`);
    expect(Buffer.from(await part.arrayBuffer()).equals(whole.subarray(from, to))).toBe(true);
  }
  expect((await get(path, { range: `bytes=${whole.length}-` })).status).toBe(416);
  expect((await get(path, { range: 'bytes=0-9', 'if-range': '"old"' })).status).toBe(200);
  expect((await get(path, { 'if-none-match': etag })).status).toBe(304);
  expect((await get('/model/files/LICENSE')).status).toBe(404);
  expect((await get('/model/files/..%2Fstories260K%2Fconfig.json')).status).toBe(404);
});

test.each([
  [undefined, undefined],
  ['bytes=', undefined],
  ['bytes=-', undefined],
  ['bytes=2-1', undefined],
  ['bytes=0-1,3-4', undefined],
  ['bytes=-0', 'unsatisfiable'],
  ['bytes=10-', 'unsatisfiable'],
  ['bytes=-99', [0, 9]],
  ['bytes=9-99', [9, 9]],
])('of ten bytes, %s is %j', (header, range) => {
  expect(parseRange(header, 10)).toEqual(range);
});

test('Generate over Connect, JSON, and gRPC-web', async () => {
  const node = await bench.node();
  for (const transport of [
    createConnectTransport({ baseUrl: bench.webUrl, httpVersion: '1.1' }),
    createConnectTransport({ baseUrl: bench.webUrl, httpVersion: '1.1', useBinaryFormat: false }),
    createGrpcWebTransport({ baseUrl: bench.webUrl, httpVersion: '1.1' }),
  ]) {
    const ids: number[] = [];
    for await (const { response } of createClient(SglangScheduler, transport).generate(
      requestOf([7, 8], { maxNewTokens: 6 }),
    )) {
      if (response.case === 'chunk') ids.push(...response.value.tokenIds);
    }
    expect(ids).toEqual(outputOf([7, 8], 6));
  }
  await node.detach();
});

test('what is told of each token is the same over JSON, where floats can’t go as bytes', async () => {
  const node = await bench.node();
  const answers: GenerateResponse[][] = [];
  for (const useBinaryFormat of [true, false]) {
    const transport = createConnectTransport({ baseUrl: bench.webUrl, httpVersion: '1.1', useBinaryFormat });
    const rest = { returnLogprob: true, logprobStartLen: 0, topLogprobsNum: 3, tokenIdsLogprob: [4] };
    const request = requestOf([7, 8], { maxNewTokens: 3 }, { ...rest, returnHiddenStates: true });
    const messages: GenerateResponse[] = [];
    for await (const message of createClient(SglangScheduler, transport).generate(request)) messages.push(message);
    answers.push(messages);
  }
  const [binary, json] = answers;
  expect(json).toEqual(binary);
  expect(json?.at(-1)?.response.value).toMatchObject({
    outputLogprobs: { topLogprobs: [{ tokenIds: expect.any(Array) }, {}, {}] },
    allHiddenStates: [{ position: 1 }, {}, {}],
  });
  await node.detach();
});

test('a page of another site may not use the services', async () => {
  const ask = (origin: string) =>
    fetch(`${bench.webUrl}/sglang.grpc.scheduler.SglangScheduler/GetModelInfo`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin },
      body: '{}',
    });
  expect((await ask('http://elsewhere.example')).status).toBe(403);
  expect((await ask(bench.webUrl)).status).toBe(200);
});

test('health and metrics', async () => {
  expect((await get('/healthz')).status).toBe(503);
  const node = await bench.node();
  expect((await get('/healthz')).status).toBe(200);
  const text = await (await get('/metrics')).text();
  expect(text).toMatch(/^shoal:nodes\{.*\} 1$/m);
  expect(text).toMatch(/^sglang:generation_tokens_total\{.*\} 24$/m);
  expect(text).toMatch(/^sglang:num_running_reqs\{dp_rank="0",.*\} 0$/m);
  // A node that told no load has none.
  expect(text).not.toMatch(/^sglang:num_used_tokens\{/m);
  await node.detach();
});
