import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { ContractError } from './contract-error.ts';
import { EmbedRequestSchema } from './gen/sglang_scheduler_pb.ts';
import { checkEmbed, type EmbedLimits, embedInputs, embedJobRequest } from './normalise-embed.ts';

const MODEL: EmbedLimits = {
  vocabSize: 100,
  contextLength: 8,
  size: 4,
  classifies: false,
  tokenTypes: 2,
};
const SCORES = { ...MODEL, classifies: true };

type Init = MessageInitShape<typeof EmbedRequestSchema>;

/** A text's characters as ids, a pair's of the second type. */
const encode = (text: string, pair = '') => ({
  ids: [...text, ...pair].map((_, at) => at),
  typeIds: [...text.replace(/./g, '0'), ...pair.replace(/./g, '1')].map(Number),
});

async function taken(init: Init, model = MODEL) {
  const request = create(EmbedRequestSchema, init);
  checkEmbed(request, model);
  const inputs = await embedInputs(request, model, async (text, pair) => encode(text, pair));
  return embedJobRequest(request, inputs, model);
}

async function refusal(init: Init, model: EmbedLimits): Promise<ContractError> {
  try {
    await taken(init, model);
  } catch (error) {
    expect(error).toBeInstanceOf(ContractError);
    return error as ContractError;
  }
  throw new Error('it was taken');
}

const ids = (...inputIds: number[]) => ({ tokenized: { inputIds } });

test('ids, and their types where they are told', async () => {
  expect(await taken({ requestId: 'a', ...ids(1, 2) })).toMatchObject({
    requestId: 'a',
    n: 1,
    inputIds: [1, 2],
    embedInputs: [{ ids: [1, 2], typeIds: undefined }],
    rank: undefined,
  });
  expect(await taken({ ...ids(1, 2), tokenTypeIds: [0, 1], dataParallelRank: 0 })).toMatchObject({
    embedInputs: [{ typeIds: [0, 1] }],
    rank: 0,
  });
});

test('texts are a batch; with is_cross_encoder they are pairs', async () => {
  const { inputIds, embedInputs: inputs, n, promptBytes } = await taken({ texts: ['ab', 'cde'] });
  expect([n, inputIds]).toEqual([2, [0, 1, 0, 1, 2]]);
  expect(inputs).toEqual([encode('ab'), encode('cde')]);
  // What is held until the last of them is there, which the relay bounds.
  expect(promptBytes).toBeGreaterThanOrEqual(2 * 4 * MODEL.size);
  const pairs = await taken({ texts: ['ab', 'c', 'ab', 'd'], isCrossEncoder: true }, SCORES);
  expect(pairs.embedInputs).toEqual([encode('ab', 'c'), encode('ab', 'd')]);
});

test('what a tokenizer fills texts up with is left out, on its side', async () => {
  const right = { ...MODEL, padding: { id: 7, side: 'right' as const } };
  const left = { ...MODEL, padding: { id: 7, side: 'left' as const } };
  const of = async (model: EmbedLimits, inputIds: number[], tokenTypeIds: number[] = []) =>
    (await taken({ tokenized: { inputIds }, tokenTypeIds }, model)).embedInputs;
  expect(await of(right, [7, 1, 7, 2, 7, 7])).toEqual([{ ids: [7, 1, 7, 2], typeIds: undefined }]);
  expect(await of(left, [7, 7, 1, 7], [0, 0, 1, 0])).toEqual([{ ids: [1, 7], typeIds: [1, 0] }]);
  expect(await of(right, [7, 7])).toEqual([{ ids: [7], typeIds: undefined }]);
  expect(await of(left, [7, 7])).toEqual([{ ids: [7], typeIds: undefined }]);
  expect(await of(MODEL, [1, 7])).toEqual([{ ids: [1, 7], typeIds: undefined }]);
});

test('sampling_params say nothing of a vector, whatever is in them', async () => {
  expect(await taken({ ...ids(1), samplingParams: { temperature: -1, n: 3 } })).toMatchObject({ n: 1 });
});

test.each<[Init, Partial<EmbedLimits>, string]>([
  [{ ...ids(1), requestId: 'x'.repeat(4097) }, {}, 'request_id must be at most 4096 characters, got 4097.'],
  [{}, {}, 'tokenized must be set.'],
  [ids(), {}, 'tokenized.input_ids must not be empty.'],
  [ids(...new Array(9).fill(1)), {}, 'tokenized.input_ids must fit the context of 8 tokens, got 9 of them.'],
  [
    ids(...new Array(6).fill(1)),
    { poolTokens: 5 },
    'tokenized.input_ids must fit the context of 5 tokens, got 6 of them.',
  ],
  [ids(1, 100), {}, 'tokenized.input_ids must hold ids in [0, 100).'],
  [{ ...ids(1, 2), tokenTypeIds: [0] }, {}, 'token_type_ids must be as many as input_ids (2), got 1.'],
  [{ ...ids(1, 2), tokenTypeIds: [0, 2] }, {}, 'token_type_ids must hold types in [0, 2).'],
  [{ ...ids(1, 2), tokenTypeIds: [0, -1] }, {}, 'token_type_ids must hold types in [0, 2).'],
  [{ ...ids(1), dataParallelRank: -1 }, {}, 'data_parallel_rank must be >= 0, got -1.'],
  [{ ...ids(1), dataParallelRank: 2 }, { ranks: 2 }, 'data_parallel_rank must be in [0, 2), got 2.'],
  [
    { ...ids(1), isCrossEncoder: true },
    {},
    'is_cross_encoder must be false: the model makes embeddings, and scores no pairs.',
  ],
  [{ ...ids(1), texts: ['a'] }, {}, 'texts must be empty where tokenized.input_ids is set.'],
  [{ texts: ['a'], tokenTypeIds: [0] }, {}, 'token_type_ids must be empty where texts are given.'],
  [
    { texts: ['a'], isCrossEncoder: true },
    { classifies: true },
    'texts must be pairs with is_cross_encoder, got 1 texts.',
  ],
  [{ texts: new Array(129).fill('a') }, {}, 'texts must be at most 128, pairs counted once, got 129.'],
  [{ texts: ['a', 'a', 'a'] }, { size: 300_000 }, 'texts must be at most 1, pairs counted once, got 3.'],
  [{ texts: ['a'.repeat(65_537)] }, {}, 'texts must hold at most 65536 characters in all.'],
  [
    { texts: ['a', 'a'.repeat(8_193)] },
    {},
    'texts must be of at most 8192 characters each: longer ones go as tokenized.input_ids.',
  ],
  [
    { texts: ['a'.repeat(8_000), 'b'.repeat(193)], isCrossEncoder: true },
    { classifies: true },
    'texts must be of at most 8192 characters each: longer ones go as tokenized.input_ids.',
  ],
  [{ texts: ['abc', 'abcdefghi'] }, {}, 'texts must fit the context of 8 tokens, got 9 of them.'],
  [{ texts: ['abc', ''] }, {}, 'texts must hold no text without a token.'],
])('INVALID_ARGUMENT: %j %j', async (init, model, message) => {
  const error = await refusal(init, { ...MODEL, ...model });
  expect([error.code, error.message]).toEqual([Code.InvalidArgument, message]);
  expect(message.startsWith(`${error.field} `)).toBe(true);
});

test('mm_inputs are UNIMPLEMENTED where they hold anything, and a mistake is told before', async () => {
  const mmInputs = { imageUrls: ['x'] };
  expect(await taken({ ...ids(1), mmInputs: {} })).toMatchObject({ n: 1 });
  expect(await refusal({ ...ids(1), mmInputs }, MODEL)).toMatchObject({ code: Code.Unimplemented, field: 'mm_inputs' });
  expect((await refusal({ ...ids(100), mmInputs }, MODEL)).code).toBe(Code.InvalidArgument);
});
