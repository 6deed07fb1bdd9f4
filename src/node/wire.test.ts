import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GenerateSchema, NodeEventSchema } from '../contract/gen/node_relay_pb.ts';
import type { EngineEvent, InputLogprobsEvent, TokensEvent } from '../engine/event.ts';
import { PART_NUMBERS } from './split-event.ts';
import { weightOf } from './weight.ts';
import { cacheEvent, engineRequest, nodeEvents } from './wire.ts';

/** As the relay reads it. */
const overTheWire = (event: EngineEvent) =>
  nodeEvents(event).map((one) => fromBinary(NodeEventSchema, toBinary(NodeEventSchema, create(NodeEventSchema, one))));

test('every field of a command reaches the engine', () => {
  const embeds = Float32Array.of(1, -2.5, 3e-8);
  const command = create(GenerateSchema, {
    jobId: 7n,
    inputIds: [5, 6, 7],
    inputEmbeds: new Uint8Array(embeds.buffer),
    samples: [{ index: 1, credit: 64, emittedIds: [9] }],
    outputLogprobs: true,
    topLogprobs: 2,
    priority: -3,
    logprobIds: [4, 3],
    logprobStart: 0,
    hiddenStates: true,
    constraint: { case: 'ebnfGrammar', value: 'root ::= "a"' },
    sampling: {
      temperature: 0.5,
      topP: 0.25,
      topK: 40,
      minP: 0.125,
      seed: 2n ** 64n - 1n,
      maxNewTokens: 9,
      stopTokenIds: [2],
      stopStrings: ['end'],
      skipSpecialTokens: true,
      frequencyPenalty: -1,
      presencePenalty: 2,
      repetitionPenalty: 1.5,
      minNewTokens: 3,
      maskedStopIds: [2, 8],
      logitBiases: [{ tokenId: 5, bias: -100 }],
    },
  });
  expect(engineRequest(fromBinary(GenerateSchema, toBinary(GenerateSchema, command)))).toMatchObject({
    jobId: 7n,
    inputIds: [5, 6, 7],
    inputEmbeds: embeds,
    samples: [{ index: 1, credit: 64, emittedIds: [9] }],
    sampling: {
      temperature: 0.5,
      topK: 40,
      topP: 0.25,
      minP: 0.125,
      seed: 2n ** 64n - 1n,
      frequencyPenalty: -1,
      presencePenalty: 2,
      repetitionPenalty: 1.5,
      minNewTokens: 3,
      maskedStopIds: [2, 8],
      biases: [{ id: 5, bias: -100 }],
    },
    maxNewTokens: 9,
    stopTokenIds: [2],
    stopStrings: ['end'],
    skipSpecialTokens: true,
    priority: -3,
    outputLogprobs: true,
    topLogprobs: 2,
    logprobIds: [4, 3],
    logprobStart: 0,
    hiddenStates: true,
    constraint: { kind: 'ebnf_grammar', text: 'root ::= "a"' },
  });
});

test('what a command leaves out is none', () => {
  expect(engineRequest(create(GenerateSchema, { inputIds: [5], sampling: {} }))).toMatchObject({
    sampling: { repetitionPenalty: 1, minNewTokens: 0, biases: [] },
    logprobIds: [],
    logprobStart: undefined,
    hiddenStates: false,
    constraint: undefined,
  });
  expect(engineRequest(create(GenerateSchema)).inputEmbeds).toBeUndefined();
});

const floats = (length: number) => fc.array(fc.float({ noNaN: true }), { minLength: length, maxLength: length });
const shape = fc.record({
  positions: fc.integer({ min: 1, max: 8 }),
  top: fc.nat(5),
  ids: fc.nat(3),
  hidden: fc.nat(6),
});

test('tokens and prompt logprobs come as they were told, floats bit by bit', () => {
  fc.assert(
    fc.property(
      shape.chain(({ positions, top, ids, hidden }) =>
        fc.record({
          logprobs: floats(positions),
          top: fc.array(floats(top), { minLength: top > 0 ? positions : 0, maxLength: top > 0 ? positions : 0 }),
          byId: fc.array(floats(ids), { minLength: ids > 0 ? positions : 0, maxLength: ids > 0 ? positions : 0 }),
          hidden: fc.array(floats(hidden), {
            minLength: hidden > 0 ? positions : 0,
            maxLength: hidden > 0 ? positions : 0,
          }),
          first: fc.nat(3),
        }),
      ),
      ({ logprobs, top, byId, hidden, first }) => {
        const lists = {
          jobId: 3n,
          index: 2,
          topLogprobs: top.map((values) => ({
            ids: Uint32Array.from(values, (_, at) => at * 300),
            logprobs: Float32Array.from(values),
          })),
          idLogprobs: byId.map((values) => Float32Array.from(values)),
        };
        const told = {
          topLogprobs: top.map((values) => ({ tokenIds: values.map((_, at) => at * 300), logprobs: values })),
          idLogprobs: byId.map((values) => ({ values })),
        };
        const [tokens] = overTheWire({
          ...lists,
          type: 'tokens',
          offset: 4,
          ids: logprobs.map((_, at) => at),
          cachedTokens: 5,
          logprobs,
          hiddenStates: hidden.map((values) => Float32Array.from(values)),
        });
        expect(tokens).toMatchObject({
          jobId: 3n,
          index: 2,
          event: {
            value: {
              offset: 4,
              cachedTokens: 5,
              logprobs,
              ...told,
              hiddenStates: hidden.map((values) => ({ values })),
            },
          },
        });
        const position = first === 0 ? 0 : 10;
        const known = logprobs.map((value, at) => (position + at === 0 ? undefined : value));
        const [input] = overTheWire({ ...lists, type: 'input-logprobs', position, logprobs: known });
        expect(input?.event).toMatchObject({
          case: 'inputLogprobs',
          value: { position, logprobs: known.map((value) => (value === undefined ? {} : { value })), ...told },
        });
      },
    ),
  );
});

/** Of `positions` positions with a whole vocabulary's logprobs each. */
function large(positions: number, vocabSize: number): Omit<InputLogprobsEvent, 'type' | 'position'> {
  const top = {
    ids: Uint32Array.from({ length: vocabSize }, (_, id) => id),
    logprobs: Float32Array.from({ length: vocabSize }, (_, id) => -id),
  };
  return {
    jobId: 1n,
    index: 0,
    logprobs: Array.from({ length: positions }, (_, at) => -at),
    topLogprobs: new Array(positions).fill(top),
    idLogprobs: [],
  };
}

test.each([
  [10, 512],
  [1000, 512],
  [3, 152_064],
])('%s positions with %s logprobs each go in parts that a report takes, in order', (positions, vocabSize) => {
  const { logprobs, ...lists } = large(positions, vocabSize);
  const ids = Array.from({ length: positions }, (_, at) => at);
  const tokens: TokensEvent = {
    ...lists,
    logprobs: logprobs as number[],
    type: 'tokens',
    offset: 7,
    ids,
    cachedTokens: 0,
    hiddenStates: [],
  };
  const parts = nodeEvents(tokens);
  const input = nodeEvents({ ...lists, logprobs, type: 'input-logprobs', position: 7 });
  expect(parts.length).toBe(input.length);
  for (const part of [...parts, ...input]) {
    expect(weightOf(part)).toBeLessThanOrEqual(Math.max(PART_NUMBERS, 2 * vocabSize + 1_000));
  }
  let next = 0;
  for (const [at, { event }] of parts.entries()) {
    if (event?.case !== 'tokens') throw new Error('no tokens');
    expect(event.value.offset).toBe(7 + next);
    expect(input[at]?.event?.value).toMatchObject({ position: 7 + next });
    expect(event.value.tokenIds).toEqual(ids.slice(next, next + (event.value.tokenIds?.length ?? 0)));
    next += event.value.tokenIds?.length ?? 0;
    expect(event.value.topLogprobs).toHaveLength(event.value.tokenIds?.length ?? 0);
  }
  expect(next).toBe(positions);
});

test('an end has the hidden state where no token was made', () => {
  const base = { jobId: 1n, index: 0, completionTokens: 0, cachedTokens: 0, matched: undefined } as const;
  const [finished] = overTheWire({ ...base, type: 'finished', reason: 'length', hiddenState: Float32Array.of(1, 2) });
  expect(finished?.event).toMatchObject({ value: { hiddenState: { values: [1, 2] } } });
  const [plain] = overTheWire({ ...base, type: 'finished', reason: 'length' });
  expect(plain?.event.value).not.toHaveProperty('hiddenState', expect.anything());
});

test('news of the prefix cache: what is stored below what, what is removed, and that all is gone', () => {
  const ids = Array.from({ length: 32 }, (_, at) => at);
  expect(cacheEvent({ type: 'stored', parent: undefined, blocks: [4, 7], ids })).toEqual({
    event: { case: 'cacheStored', value: { blocks: [4, 7], tokenIds: ids } },
  });
  // Block 0 is one like others.
  expect(cacheEvent({ type: 'stored', parent: 0, blocks: [4, 7], ids }).event?.value).toMatchObject({ parent: 0 });
  expect(cacheEvent({ type: 'removed', blocks: [7] })).toEqual({
    event: { case: 'cacheRemoved', value: { blocks: [7] } },
  });
  expect(cacheEvent({ type: 'cleared' })).toEqual({ event: { case: 'cacheCleared', value: {} } });
});
