import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, type MessageInitShape, toJsonString } from '@bufbuild/protobuf';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Command } from 'commander';
import { afterAll, afterEach, expect, test } from 'vitest';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  type GenerateResponseSchema,
  SamplingParamsSchema,
  SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { withGenerateFlags } from './generate-flags.ts';
import { bundledModel } from './paths.ts';
import { runProgram } from './program.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-flags-'));
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});
afterAll(() => rmSync(folder, { recursive: true }));

const COMPLETE: MessageInitShape<typeof GenerateResponseSchema> = {
  response: { case: 'complete', value: { outputIds: [432], finishReason: 'length' } },
};

/** Runs `generate` against a relay that answers with `responses`: what it was asked, and what was said. */
async function run(
  args: readonly string[],
  responses: readonly MessageInitShape<typeof GenerateResponseSchema>[] = [COMPLETE],
) {
  let request: GenerateRequest | undefined;
  const server = createServer(
    connectNodeAdapter({
      routes: (router) =>
        router.service(SglangScheduler, {
          getModelInfo: () => ({ tokenizerPath: bundledModel }),
          async *generate(asked) {
            request = asked;
            yield* responses;
          },
        }),
    }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  let stdout = '';
  let stderr = '';
  const relay = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const outcome = await runProgram(['generate', '--relay', relay, ...args], '1.2.3', {
    write: (text) => {
      stdout += text;
    },
    writeError: (text) => {
      stderr += text;
    },
  });
  return { ...outcome, request, stdout, stderr };
}

function file(content: unknown): string {
  const path = join(folder, `${Math.random()}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

/** A value of each flag, and what the request then holds. */
const FLAGS: readonly (readonly [flags: string[], request: object])[] = [
  [['--input-ids', '1,403', '--input-ids', '7'], { tokenized: { originalText: '', inputIds: [1, 403, 7] } }],
  [['--input-embeds', '[[1, 2], [3, 4]]'], { inputEmbeds: [1, 2, 3, 4] }],
  [['--temperature', '0.5'], { samplingParams: { temperature: 0.5 } }],
  [['--top-p', '0.5'], { samplingParams: { topP: 0.5 } }],
  [['--top-k', '-1'], { samplingParams: { topK: -1 } }],
  [['--min-p', '0.25'], { samplingParams: { minP: 0.25 } }],
  [['--frequency-penalty', '-2'], { samplingParams: { frequencyPenalty: -2 } }],
  [['--presence-penalty', '1.5'], { samplingParams: { presencePenalty: 1.5 } }],
  [['--repetition-penalty', '1.25'], { samplingParams: { repetitionPenalty: 1.25 } }],
  [['--logit-bias', '426=-100', '--logit-bias', '5=1'], { samplingParams: { logitBias: { 426: -100, 5: 1 } } }],
  [['--seed', '7'], { samplingParams: { customParams: { seed: 7 } } }],
  [['--seed', '7', '--priority', '-3'], { samplingParams: { customParams: { seed: 7, priority: -3 } } }],
  [['--custom-params', '{"a": [1]}', '--seed', '7'], { samplingParams: { customParams: { a: [1], seed: 7 } } }],
  [['--max-new-tokens', '0'], { samplingParams: { maxNewTokens: 0 } }],
  [['--min-new-tokens', '3'], { samplingParams: { minNewTokens: 3 } }],
  [['--stop', 'Lily', '--stop', ' "x'], { samplingParams: { stop: ['Lily', ' "x'] } }],
  [['--stop-token-id', '5', '--stop-token-ids', '7,9'], { samplingParams: { stopTokenIds: [5, 7, 9] } }],
  [['--ignore-eos'], { samplingParams: { ignoreEos: true, noStopTrim: false } }],
  [['--no-stop-trim'], { samplingParams: { noStopTrim: true } }],
  [
    ['--json-schema', '{"type":"object"}'],
    { samplingParams: { constraint: { case: 'jsonSchema', value: '{"type":"object"}' } } },
  ],
  [['--regex', '[a-z]+'], { samplingParams: { constraint: { case: 'regex', value: '[a-z]+' } } }],
  [['--ebnf', 'root ::= "a"'], { samplingParams: { constraint: { case: 'ebnfGrammar', value: 'root ::= "a"' } } }],
  [['--ebnf-grammar', 'root ::= "a"'], { samplingParams: { constraint: { case: 'ebnfGrammar' } } }],
  [['--structural-tag', '{}'], { samplingParams: { constraint: { case: 'structuralTag', value: '{}' } } }],
  [['--logprobs'], { returnLogprob: true, topLogprobsNum: 0, logprobStartLen: -1 }],
  [['--return-logprob'], { returnLogprob: true }],
  [['--top-logprobs', '5'], { returnLogprob: true, topLogprobsNum: 5 }],
  [['--logprob-start-len', '2'], { returnLogprob: true, logprobStartLen: 2 }],
  [['--token-ids-logprob', '5,9'], { returnLogprob: true, tokenIdsLogprob: [5, 9] }],
  [['--top-logprobs', '5', '--no-logprobs'], { returnLogprob: false, topLogprobsNum: 5 }],
  [['--return-hidden-states'], { returnHiddenStates: true }],
  [['--no-stream'], { stream: false }],
  [['--stream-interval', '3'], { stream: true, samplingParams: { streamInterval: 3 } }],
  [['--no-skip-special-tokens'], { samplingParams: { skipSpecialTokens: false } }],
  [['--no-spaces-between-special-tokens'], { samplingParams: { spacesBetweenSpecialTokens: false } }],
  [['--request-id', 'mine'], { requestId: 'mine' }],
  [['--data-parallel-rank', '0'], { dataParallelRank: 0 }],
  [['--timestamp', '2026-01-31T12:00:00Z'], { timestamp: { seconds: 1_769_860_800n } }],
  [['--log-metrics'], { logMetrics: true }],
  [['--lora-id', 'a'], { loraId: 'a' }],
  [['--mm-inputs', '{"image_urls": ["u"]}'], { mmInputs: { imageUrls: ['u'] } }],
  [['--disaggregated-params', '{"bootstrapPort": 5}'], { disaggregatedParams: { bootstrapPort: 5 } }],
  [['--custom-logit-processor', 'code'], { customLogitProcessor: 'code' }],
  [['--require-reasoning'], { requireReasoning: true }],
];

test.each(FLAGS)('%j reaches its field', async (flags, expected) => {
  const prompt = flags[0] === '--input-ids' ? [] : ['--prompt', 'Once upon a time'];
  const { request, code, message, stderr } = await run([...prompt, ...flags]);
  expect({ code, message, stderr }).toEqual({ code: 0, message: undefined, stderr: '' });
  expect(request).toMatchObject(expected);
});

test('n reaches its field', async () => {
  const complete = (index: number) => ({
    response: { case: 'complete' as const, value: { outputIds: [432], finishReason: 'length', index } },
  });
  const { request, stdout } = await run(['--prompt', 'Once upon a time', '--n', '2'], [complete(0), complete(1)]);
  expect(request?.samplingParams?.n).toBe(2);
  expect(stdout).toBe('--- sample 0 ---\nOnce upon a time,\n--- sample 1 ---\nOnce upon a time,\n');
});

test('every field has a flag, and a flag names a field', () => {
  const options = withGenerateFlags(new Command()).options;
  const attributes = new Set(options.map((option) => option.attributeName()));
  const beside = ['prompt', 'inputIds', 'request', 'seed', 'priority'];
  const fields = [GenerateRequestSchema, SamplingParamsSchema].flatMap(({ fields }) => fields.map((f) => f.localName));
  const named = (field: string) => (field === 'noStopTrim' ? 'stopTrim' : field);
  const expected = fields.filter((field) => field !== 'tokenized' && field !== 'samplingParams').map(named);
  expect([...attributes].sort()).toEqual([...expected, ...beside].sort());
  // What is tried above is all there is.
  const tried = new Set(FLAGS.flatMap(([flags]) => flags.filter((each) => each.startsWith('--'))));
  const untried = options.filter(
    ({ hidden, long, short }) => !hidden && ![long, short].some((flag) => flag && tried.has(flag)),
  );
  expect(untried.map(({ long }) => long)).toEqual(['--prompt', '--request', '--n']);
});

test("without flags the request is the gateways': defaults explicit", async () => {
  const { request } = await run(['--prompt', 'Once upon a time']);
  expect(request).toMatchObject({
    requestId: expect.stringMatching(/^cli-/),
    tokenized: { originalText: 'Once upon a time', inputIds: [1, 403, 407, 261, 378] },
    samplingParams: {
      temperature: 1,
      topP: 1,
      topK: -1,
      repetitionPenalty: 1,
      n: 1,
      skipSpecialTokens: true,
      spacesBetweenSpecialTokens: true,
      constraint: { case: undefined },
    },
    logprobStartLen: -1,
    stream: true,
    returnLogprob: false,
  });
  expect(request?.samplingParams?.customParams).toBeUndefined();
});

const WHOLE = create(GenerateRequestSchema, {
  requestId: 'from-file',
  tokenized: { originalText: 'Once', inputIds: [1, 403] },
  samplingParams: { topK: 5, constraint: { case: 'regex', value: 'a+' }, customParams: { seed: 3 } },
  returnLogprob: true,
});

test('a file is the whole request, as it is', async () => {
  const { request, stdout } = await run(['--request', file(toJsonString(GenerateRequestSchema, WHOLE))]);
  expect(request).toEqual(WHOLE);
  expect(stdout).toBe('Once,\n');
  // Names as in the proto do too.
  const snake = toJsonString(GenerateRequestSchema, WHOLE, { useProtoFieldName: true });
  expect((await run(['--request', file(snake)])).request).toEqual(WHOLE);
});

test('flags override a file', async () => {
  const path = file(toJsonString(GenerateRequestSchema, WHOLE));
  const flags = ['--top-k', '7', '--ebnf', 'root ::= "b"', '--priority', '1', '--no-logprobs', '--input-ids', '5'];
  const { request } = await run(['--request', path, ...flags]);
  expect(request).toMatchObject({
    requestId: 'from-file',
    tokenized: { originalText: '', inputIds: [5] },
    samplingParams: {
      topK: 7,
      temperature: 0,
      constraint: { case: 'ebnfGrammar', value: 'root ::= "b"' },
      customParams: { seed: 3, priority: 1 },
    },
    returnLogprob: false,
  });
});

test('in a file without sampling_params, flags stand on the defaults', async () => {
  const path = file({ tokenized: { input_ids: [1] } });
  expect((await run(['--request', path])).request?.samplingParams).toBeUndefined();
  const { samplingParams } = (await run(['--request', path, '--top-p', '0.5'])).request!;
  expect(samplingParams).toMatchObject({ temperature: 1, topP: 0.5, topK: -1 });
});

test.each([
  [
    { foo: 1, samplingParams: { top_q: 1, topK: 1 }, tokenized: { ids: [] } },
    'has no field foo, samplingParams.top_q, tokenized.ids.',
  ],
  [{ sampling_params: { top_p: 'much' } }, 'SamplingParams.top_p from JSON: expected number (float32), got "much".'],
  [{ tokenized: { inputIds: [-1] } }, '-1 out of range'],
  [{ samplingParams: { regex: 'a', jsonSchema: 'b' } }, 'oneof set multiple times by regex and json_schema'],
  [[1], 'GenerateRequest from JSON'],
  ['{', 'cannot be read as JSON'],
])('a file with %j is refused with one sentence', async (content, sentence) => {
  const { code, stdout, stderr, request } = await run(['--request', file(content)]);
  expect(code).toBe(2);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^error: option '--request <file>' [^\n]+\n$/);
  expect(stderr).toContain(sentence);
  expect(request).toBeUndefined();
});

test('a key that a Struct takes is no unknown field', async () => {
  const { request } = await run(['--request', file({ sampling_params: { custom_params: { anything: { goes: 1 } } } })]);
  expect(request?.samplingParams?.customParams).toEqual({ anything: { goes: 1 } });
});

test.each([
  [['--json-schema', '{}', '--regex', 'a']],
  [['--ebnf', 'a', '--structural-tag', 'a']],
  [['--input-ids', '1']],
  [['--top-p', 'x']],
  [['--top-k', '1.5']],
  [['--logit-bias', '5']],
  [['--stop-token-id', '-1']],
  [['--json-schema', '@/nonexistent']],
  [['--mm-inputs', '{"imageUrl": []}']],
  [['--custom-params', '[]']],
  [['--timestamp', 'now']],
  [['--request', '/nonexistent.json']],
])('%j exits 2 with one sentence', async (flags) => {
  const { code, stdout, stderr, request } = await run(['--prompt', 'x', ...flags]);
  expect(code).toBe(2);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
  expect(request).toBeUndefined();
});
