import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { expect, it } from 'vitest';
import { tokenBytes } from '../../checkpoint/token-bytes.ts';
import { type GenerateResponse, GenerateResponseSchema } from '../../contract/gen/sglang_scheduler_pb.ts';
import { Completion, type GenerateCall } from './completion.ts';
import { DEFAULT_FIELDS, requestOf } from './fields.ts';

const tokens = tokenBytes(
  {
    model: { vocab: { '<s>': 0, '▁a': 1, '▁b': 2, '<0xC3>': 3, '<0xA9>': 4, '</s>': 5 } },
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
    added_tokens: [
      { id: 0, content: '<s>', special: true },
      { id: 5, content: '</s>', special: true },
    ],
  },
  'test',
);
const fields = { ...DEFAULT_FIELDS, n: '2' };
const request = requestOf(fields, [0, 1], 'r');

const top = (id: number) => ({ tokenIds: [id, 0], values: [-0.5, -1.5] });
const logprobs = (ids: readonly number[]) => ({
  tokenIds: [...ids],
  tokenLogprobs: ids.map(() => -0.5),
  topLogprobs: ids.map(top),
});
const chunk = (index: number, ...ids: number[]) =>
  create(GenerateResponseSchema, {
    response: { case: 'chunk', value: { index, tokenIds: ids, outputLogprobs: logprobs(ids) } },
  });
const complete = (index: number, ...ids: number[]) =>
  create(GenerateResponseSchema, {
    response: {
      case: 'complete',
      value: {
        index,
        outputIds: ids,
        finishReason: 'stop',
        promptTokens: 2,
        cachedTokens: 1,
        outputLogprobs: logprobs(ids),
        matchedStop: { case: 'matchedTokenId', value: 5 },
      },
    },
  });

function answers(...responses: (GenerateResponse | Error)[]): GenerateCall {
  return async function* (_request, { onTrailer }) {
    for (const response of responses) {
      if (response instanceof Error) throw response;
      yield response;
    }
    onTrailer(new Headers({ 'x-shoal-ranks': '3,1' }));
  };
}

it('gathers samples, characters that span tokens, alternatives, and who answered', async () => {
  const call = answers(chunk(0, 2, 3), chunk(1, 1), chunk(0, 4), complete(1, 1, 5), complete(0, 2, 3, 4));
  const completion = new Completion(call, request, tokens, fields);
  expect(completion.running).toBe(true);
  await completion.over;
  expect(completion.state.value).toBe('done');
  const [first, second] = completion.samples.value;
  expect(first).toMatchObject({ index: 0, text: ' bé', finish: 'stop', matched: 5 });
  expect(first!.tokens.map(({ id }) => id)).toEqual([2, 3, 4]);
  // Its last id came with the complete only, with its own logprobs.
  expect(second).toMatchObject({ text: ' a', tokens: [{ id: 1 }, { id: 5, logprob: -0.5 }] });
  expect(second!.tokens[1]!.alternatives).toEqual([
    { id: 5, logprob: -0.5 },
    { id: 0, logprob: -1.5 },
  ]);
  expect(completion.figures.value).toMatchObject({ promptTokens: 2, cachedTokens: 1, outputTokens: 5, ranks: [3, 1] });
});

it('keeps what came before a failure, and says why it failed', async () => {
  const call = answers(chunk(0, 2), new ConnectError('No node is serving', Code.Unavailable));
  const completion = new Completion(call, request, tokens, fields);
  await completion.over;
  expect(completion.state.value).toBe('failed');
  expect(completion.problem.value?.rawMessage).toBe('No node is serving');
  expect(completion.samples.value[0]).toMatchObject({ text: ' b', finish: undefined });
});

it('takes no end for a result', async () => {
  const completion = new Completion(answers(complete(0, 2)), request, tokens, fields);
  await completion.over;
  expect(completion.state.value).toBe('failed');
  expect(completion.problem.value?.code).toBe(Code.DataLoss);
});

it('holds as many samples as a relay serves: none asked for is one, and a number that it refuses costs nothing here', async () => {
  const asked = (n: string) => requestOf({ ...fields, n }, [0, 1], 'r');
  const one = new Completion(answers(chunk(0, 2), complete(0, 2)), asked('0'), tokens, fields);
  await one.over;
  expect(one.state.value).toBe('done');
  expect(one.samples.value).toMatchObject([{ index: 0, text: ' b' }]);
  const refused = answers(new ConnectError('n is served up to 128', Code.Unimplemented));
  for (const n of ['2000000000', '-1']) {
    const completion = new Completion(refused, asked(n), tokens, fields);
    await completion.over;
    expect(completion.problem.value?.rawMessage).toBe('n is served up to 128');
    expect(completion.samples.value.length).toBeLessThanOrEqual(128);
  }
});

it('stops when it is told to', async () => {
  const call: GenerateCall = async function* (_request, { signal }) {
    yield chunk(0, 2);
    await new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new ConnectError('aborted', Code.Canceled)));
    });
  };
  const completion = new Completion(call, request, tokens, fields);
  while (completion.state.value !== 'streaming') await Promise.resolve();
  completion.stop();
  await completion.over;
  expect(completion.state.value).toBe('stopped');
  expect(completion.problem.value).toBeUndefined();
  expect(completion.samples.value[0]!.text).toBe(' b');
});

it('tells a chat what was said without special tokens, also where they are shown', async () => {
  const shown = { ...fields, n: '1', skipSpecialTokens: false };
  const completion = new Completion(
    answers(chunk(0, 2, 1), complete(0, 2, 1, 5)),
    requestOf(shown, [0, 1], 'r'),
    tokens,
    shown,
  );
  await completion.over;
  expect(completion.samples.value[0]!.text).toBe(' b a</s>');
  expect(completion.said).toBe(' b a');
});
