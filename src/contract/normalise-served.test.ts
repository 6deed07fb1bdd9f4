import { Code } from '@connectrpc/connect';
import { describe, expect, test } from 'vitest';
import { MAX_BIASES } from './check-served.ts';
import { normaliseRequest } from './normalise-request.ts';
import { BIG, type Fields, MODEL, refusalOf, requestOf } from './testing/requests.ts';

describe('logprobs', () => {
  test.each([
    [-1, undefined],
    [0, 0],
    [2, 2],
    [3, undefined],
    [100, undefined],
  ])('a start of %s in a prompt of 3 is %s', (logprobStartLen, expected) => {
    const request = requestOf({}, { returnLogprob: true, logprobStartLen, topLogprobsNum: 4, tokenIdsLogprob: [9, 3] });
    const { logprobStart, outputLogprobs, topLogprobs, logprobIds } = normaliseRequest(request, MODEL);
    expect([logprobStart, outputLogprobs, topLogprobs, logprobIds]).toEqual([expected, true, 4, [9, 3]]);
  });

  test('start, top and ids mean nothing where no logprobs are asked for', () => {
    const request = requestOf({}, { logprobStartLen: 0, topLogprobsNum: 4, tokenIdsLogprob: [9] });
    expect(normaliseRequest(request, MODEL)).toMatchObject({
      outputLogprobs: false,
      logprobStart: undefined,
      topLogprobs: 0,
      logprobIds: [],
    });
  });

  test('the whole vocabulary, and no more', () => {
    const ask = (topLogprobsNum: number) =>
      requestOf({ maxNewTokens: 4 }, { returnLogprob: true, topLogprobsNum, stream: true });
    const whole = normaliseRequest(ask(BIG.vocabSize), BIG);
    expect(whole).toMatchObject({ topLogprobs: BIG.vocabSize, detailsInComplete: false });
    // A chunk of one token, as the gateway takes it.
    expect(whole.bytesPerToken).toBeLessThan(1.2 * 2 ** 20);
    expect(refusalOf(ask(BIG.vocabSize + 1), BIG)).toMatchObject({ code: Code.InvalidArgument });
  });
});

describe('a response that one message can’t hold', () => {
  const of = (sampling: object, rest: Fields, prompt = 3) =>
    requestOf({ maxNewTokens: 100_000, ...sampling }, rest, new Array(prompt).fill(5));

  test.each<[Fields, string]>([
    [{ returnLogprob: true, topLogprobsNum: 20 }, 'top_logprobs_num'],
    [{ returnLogprob: true, tokenIdsLogprob: [1, 2, 3] }, 'token_ids_logprob'],
    [{ returnHiddenStates: true }, 'return_hidden_states'],
    [{ returnLogprob: true, topLogprobsNum: 20, returnHiddenStates: true }, 'top_logprobs_num'],
  ])('%j: is to be streamed, and its complete then leaves out what the chunks had', (rest, field) => {
    const refusal = refusalOf(of({ maxNewTokens: 131_000 }, rest), BIG);
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, field });
    expect(refusal.message).toContain('use stream=true');
    expect(normaliseRequest(of({}, { ...rest, stream: true }), BIG).detailsInComplete).toBe(false);
    expect(normaliseRequest(of({ maxNewTokens: 10 }, { ...rest, stream: true }), BIG).detailsInComplete).toBe(true);
  });

  test('a chunk of many tokens names stream_interval', () => {
    const rest = { returnLogprob: true, topLogprobsNum: 1000, stream: true };
    expect(refusalOf(of({ streamInterval: 1000 }, rest), BIG)).toMatchObject({
      code: Code.InvalidArgument,
      field: 'stream_interval',
    });
    expect(normaliseRequest(of({ streamInterval: 100 }, rest), BIG).streamInterval).toBe(100);
  });

  test.each([true, false])('the prompt’s logprobs go in one message, or are refused: stream %s', (stream) => {
    const ask = (topLogprobsNum: number, logprobStartLen: number) =>
      of({ maxNewTokens: 1 }, { returnLogprob: true, topLogprobsNum, logprobStartLen, stream }, 2_000);
    expect(refusalOf(ask(1_000, 0), BIG)).toMatchObject({ code: Code.InvalidArgument, field: 'top_logprobs_num' });
    expect(refusalOf(ask(1_000, 0), BIG).message).toContain('logprob_start_len (0)');
    expect(normaliseRequest(ask(1_000, 1_700), BIG).logprobStart).toBe(1_700);
  });
});

describe('what is served besides', () => {
  const served = (sampling: object, rest: Fields = {}) => normaliseRequest(requestOf(sampling, rest), MODEL);

  test('penalties, and their defaults', () => {
    const penalties = { frequencyPenalty: -2, presencePenalty: 2, repetitionPenalty: 1.5 };
    expect(served(penalties).sampling).toMatchObject(penalties);
    expect(served({}).sampling).toMatchObject({ frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1 });
  });

  test('min_new_tokens masks stop ids and EOS, with ignore_eos too; it is clipped as the maximum is', () => {
    const some = { minNewTokens: 3, stopTokenIds: [9, 1] };
    expect(served(some).sampling).toMatchObject({ minNewTokens: 3, maskedStopIds: [9, 1, 2], stopTokenIds: [9, 1, 2] });
    expect(served({ ...some, ignoreEos: true }).sampling).toMatchObject({ maskedStopIds: [9, 1, 2], stopTokenIds: [] });
    expect(served({ ...some, minNewTokens: 0 }).sampling.maskedStopIds).toEqual([]);
    expect(served({ minNewTokens: 2 ** 31 - 1 }).sampling).toMatchObject({ minNewTokens: 509, maxNewTokens: 509 });
  });

  test('logit_bias, up to as many entries as are served', () => {
    const bias = (entries: number) => Object.fromEntries(Array.from({ length: entries }, (_, id) => [id, -1.5]));
    expect(served({ logitBias: { 5: 1, 511: -100 } }).sampling.biases).toEqual([
      { id: 5, bias: 1 },
      { id: 511, bias: -100 },
    ]);
    expect(served({ logitBias: bias(512) }).sampling.biases).toHaveLength(512);
    const big = (entries: number) => requestOf({ maxNewTokens: 1, logitBias: bias(entries) });
    expect(normaliseRequest(big(MAX_BIASES), BIG).sampling.biases).toHaveLength(MAX_BIASES);
    expect(refusalOf(big(MAX_BIASES + 1), BIG)).toMatchObject({ code: Code.Unimplemented, field: 'logit_bias' });
  });

  test.each([
    ['regex', 'regex', 'a+', 'a+'],
    // It matches the empty output.
    ['regex', 'regex', '', ''],
    ['jsonSchema', 'json_schema', '{"type":"object"}', '{"type":"object"}'],
    // SGLang's word for any JSON.
    ['jsonSchema', 'json_schema', '$$ANY$$', '{}'],
    ['ebnfGrammar', 'ebnf_grammar', 'root ::= "a"', 'root ::= "a"'],
    ['structuralTag', 'structural_tag', '{}', '{}'],
  ])('constraint %s', (name, kind, value, text) => {
    expect(served({ constraint: { case: name, value } }).constraint).toEqual({ kind, text });
  });

  test('stream_interval, at most the tokens to be made', () => {
    expect(served({ streamInterval: 3, maxNewTokens: 10 }).streamInterval).toBe(3);
    expect(served({ streamInterval: 2 ** 31 - 1, maxNewTokens: 10 }).streamInterval).toBe(10);
    expect(served({ streamInterval: 5, maxNewTokens: 0 }).streamInterval).toBe(1);
  });

  test('hidden states and input embeddings', () => {
    const inputEmbeds = Array.from({ length: 192 }, (_, at) => at / 4);
    const request = served({ maxNewTokens: 4 }, { returnHiddenStates: true, inputEmbeds });
    expect(request.hiddenStates).toBe(true);
    expect(request.inputEmbeds).toEqual(Float32Array.from(inputEmbeds));
    expect(served({}).inputEmbeds).toBeUndefined();
  });
});

const WHOLE = Array.from({ length: MODEL.vocabSize }, (_, id) => id);

test.each<[string, object, Fields]>([
  ['an answer that is too large', {}, { returnLogprob: true, topLogprobsNum: 512, tokenIdsLogprob: WHOLE }],
  ['a stop at every id', { minNewTokens: 1, stopTokenIds: WHOLE }, {}],
])('a mistake, %s, is told before what is not served, and that before what no pool holds', (_, sampling, rest) => {
  const small = { ...MODEL, poolTokens: 2 };
  const wrong = { ...rest, loraId: 'x' };
  const params = { customParams: { other: 1 } };
  expect(refusalOf(requestOf({ ...params, ...sampling }, wrong), small)).toMatchObject({ code: Code.InvalidArgument });
  expect(refusalOf(requestOf(params), small)).toMatchObject({ code: Code.Unimplemented, field: 'custom_params.other' });
  expect(refusalOf(requestOf({}, { loraId: 'x' }), small)).toMatchObject({ code: Code.Unimplemented });
  expect(refusalOf(requestOf({}), small)).toMatchObject({ code: Code.ResourceExhausted });
});
