import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { GenerateRequestSchema, type SamplingParamsSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../contract/normalise-request.ts';
import { heldBytes } from './held-bytes.ts';
import { JobTable } from './job-table.ts';

const LARGE = { vocabSize: 151_936, contextLength: 4096, hiddenSize: 4096, eosTokenIds: [2] };
const WHOLE = { returnLogprob: true, topLogprobsNum: LARGE.vocabSize, logprobStartLen: -1 };

function asked(rest: object, sampling: MessageInitShape<typeof SamplingParamsSchema> = {}) {
  const tokenized = { inputIds: [5, 6, 7] };
  const request = create(GenerateRequestSchema, { tokenized, samplingParams: sampling, stream: true, ...rest });
  return normaliseRequest(request, LARGE);
}

test('many samples with whole vocabularies are taken as long as they fit together, and again once some are gone', () => {
  const table = new JobTable();
  const large = asked(WHOLE, { n: 100 });
  const jobs = [table.add(large), table.add(large)];
  expect(() => table.add(large)).toThrow(expect.objectContaining({ code: Code.ResourceExhausted }));
  // Others are served meanwhile, and the refused one left nothing.
  table.add(asked({ returnLogprob: true, topLogprobsNum: 20, requestId: 'r' }));
  expect(table.jobs.size).toBe(3);
  for (const job of jobs) for (let twice = 0; twice < 2; twice++) table.remove(job);
  expect(() => [table.add(large), table.add(large)]).not.toThrow();
});

test('plain requests hold their prompts, however much they make', () => {
  // Three ids, and EOS.
  expect(heldBytes(asked({}, { n: 128 }))).toBe(32);
  expect(heldBytes(asked({ stream: false }))).toBe(32);
});

test.each([
  ['a stream’s tokens that are unread', WHOLE, {}, 31 * 1.0636e6],
  ['all of a complete', { returnLogprob: true, topLogprobsNum: 1000 }, { maxNewTokens: 100 }, 100 * 7.24e3],
  ['the prompt’s logprobs', { ...WHOLE, logprobStartLen: 1 }, { maxNewTokens: 0 }, 2 * 1.06e6],
  ['hidden states', { returnHiddenStates: true }, { maxNewTokens: 10, n: 2 }, 20 * 4 * 4096],
  ['embeddings', { inputEmbeds: new Array(3 * 4096).fill(0.5) }, {}, 3 * 4 * 4096],
  ['stop ids', {}, { stopTokenIds: Array.from({ length: 10_000 }, (_, id) => id) }, 8e4],
  ['stop strings', {}, { stop: ['a'.repeat(4_000), 'b'.repeat(4_000)] }, 8e3],
  ['a constraint', {}, { constraint: { case: 'regex' as const, value: 'a'.repeat(1e6) } }, 1e6],
])('%s count', (_, rest, sampling, bytes) => {
  const held = heldBytes(asked(rest, sampling));
  expect(held).toBeGreaterThan(bytes * 0.99);
  expect(held).toBeLessThan(bytes * 1.02);
});
