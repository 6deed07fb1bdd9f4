// Parameters that direct gRPC clients use, through a page in a real browser.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesSource } from '../src/checkpoint/byte-source.ts';
import { openSafetensors } from '../src/checkpoint/safetensors.ts';
import { bundledModel } from '../src/cli/paths.ts';
import {
  DisaggregatedParamsSchema,
  MultimodalInputsSchema,
  type OutputLogProbs,
  type TopLogProbs,
} from '../src/contract/gen/sglang_scheduler_pb.ts';
import { cases, OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { collect, failureOf, greedyRequest, idsOf, messagesOf } from './harness/scheduler.ts';
import { openServing, type Serving } from './harness/serving.ts';

const VOCAB = 512;
let serving: Serving;

beforeAll(async () => {
  serving = await openServing();
});

afterAll(async () => {
  await serving?.close();
});

const run = (...args: Parameters<typeof greedyRequest>) => collect(serving.client, greedyRequest(...args));

describe('several samples', () => {
  const sampling = { maxNewTokens: 12, ignoreEos: true, temperature: 1.5, customParams: { seed: 5 } };

  test('n = 2: both under the own id of the request, the completes in index order', async () => {
    for (const stream of [true, false]) {
      const request = greedyRequest(PROMPT_IDS, { ...sampling, n: 2 }, { stream });
      const messages = await messagesOf(serving.client, request);
      expect(new Set(messages.map(({ requestId }) => requestId))).toEqual(new Set([request.requestId]));
      const completes = messages.flatMap(({ response }) => (response.case === 'complete' ? [response.value] : []));
      expect(completes.map(({ index }) => index)).toEqual([0, 1]);
      const chunks = messages.flatMap(({ response }) => (response.case === 'chunk' ? [response.value] : []));
      expect(chunks).toHaveLength(stream ? 24 : 0);
      for (const { index, outputIds } of completes) {
        const own = chunks.filter((chunk) => chunk.index === index);
        if (stream) expect(own.flatMap(({ tokenIds }) => tokenIds)).toEqual(outputIds);
        expect(outputIds).toHaveLength(12);
      }
      expect(completes[0]!.outputIds).not.toEqual(completes[1]!.outputIds);
    }
  });

  test('a sample is the same whatever the others are', async () => {
    const [one, four] = await Promise.all([run(PROMPT_IDS, sampling), run(PROMPT_IDS, { ...sampling, n: 4 })]);
    expect(idsOf(four, 0)).toEqual(idsOf(one));
    expect(new Set(four.completes.map(({ outputIds }) => outputIds.join())).size).toBe(4);
  });

  test("the prompt's logprobs go once a request", async () => {
    const generated = await run(PROMPT_IDS, { ...sampling, n: 3 }, { returnLogprob: true, logprobStartLen: 0 });
    const with_ = [...generated.chunks.flat(), ...generated.completes].filter(({ inputLogprobs }) => inputLogprobs);
    expect(with_).toHaveLength(1);
    expect(with_[0]!.inputLogprobs!.tokenIds).toEqual(PROMPT_IDS);
  });
});

describe('seeds', () => {
  const draw = (seed: number, more: object = {}) =>
    run(PROMPT_IDS, { maxNewTokens: 24, ignoreEos: true, temperature: 1, customParams: { seed }, ...more });

  test('the same one gives the same ids, alone and in company', async () => {
    const alone = idsOf(await draw(1));
    const crowd = Array.from({ length: 6 }, (_, i) => draw(100 + i, { temperature: 1.5 }));
    expect(idsOf(await draw(1))).toEqual(alone);
    await Promise.all(crowd);
  });

  test('others differ, and none is another each time', async () => {
    const all = [
      await draw(1),
      await draw(2),
      await draw(1, { customParams: undefined }),
      await draw(1, { customParams: undefined }),
    ];
    expect(new Set(all.map((each) => idsOf(each).join())).size).toBe(4);
  });
});

describe('how often chunks come', () => {
  test('stream_interval 3: by threes, and the rest', async () => {
    const generated = await run(
      PROMPT_IDS,
      { maxNewTokens: 11, streamInterval: 3 },
      { returnLogprob: true, topLogprobsNum: 2 },
    );
    const chunks = generated.chunks[0]!;
    expect(chunks.map(({ tokenIds }) => tokenIds.length)).toEqual([3, 3, 3, 2]);
    expect(chunks.map(({ completionTokens }) => completionTokens)).toEqual([3, 6, 9, 11]);
    expect(idsOf(generated)).toEqual(OUTPUT_IDS.slice(0, 11));
    for (const { tokenIds, outputLogprobs } of chunks) {
      expect(outputLogprobs?.tokenIds).toEqual(tokenIds);
      expect(outputLogprobs?.tokenLogprobs).toHaveLength(tokenIds.length);
      expect(outputLogprobs?.topLogprobs).toHaveLength(tokenIds.length);
    }
    expect(generated.completes[0]!.outputLogprobs?.tokenIds).toEqual(OUTPUT_IDS.slice(0, 11));
  });

  test('stream=false: one message, with what the stream would have had', async () => {
    const sampling = { maxNewTokens: 9, ignoreEos: true };
    const more = { returnLogprob: true, topLogprobsNum: 3, logprobStartLen: 0, returnHiddenStates: true };
    const streamed = await run(PROMPT_IDS, sampling, more);
    const messages = await messagesOf(serving.client, greedyRequest(PROMPT_IDS, sampling, { ...more, stream: false }));
    expect(messages).toHaveLength(1);
    const { value } = messages[0]!.response as { value: (typeof streamed.completes)[number] };
    const { inputLogprobs, cachedTokens: _, ...rest } = value;
    const { inputLogprobs: none, cachedTokens: __, ...expected } = streamed.completes[0]!;
    expect(none).toBeUndefined();
    expect(rest).toEqual(expected);
    expect(inputLogprobs).toEqual(streamed.chunks[0]![0]!.inputLogprobs);
  });
});

describe('logprobs of chosen ids', () => {
  const chosen = [5, 432, 2, 511];
  const of = ({ tokenIds, values }: TopLogProbs, id: number) => values[tokenIds.indexOf(id)];

  test('stand in their own field, and after the best ones', async () => {
    const more = { returnLogprob: true, logprobStartLen: 0, topLogprobsNum: 3, tokenIdsLogprob: chosen };
    const whole = { returnLogprob: true, logprobStartLen: 0, topLogprobsNum: VOCAB };
    for (const temperature of [0, 0.7]) {
      const sampling = { maxNewTokens: 6, ignoreEos: true, temperature, customParams: { seed: 3 } };
      const generated = await run(PROMPT_IDS, sampling, more);
      const all = await run(PROMPT_IDS, sampling, whole);
      expect(idsOf(generated)).toEqual(idsOf(all));
      const check = (own: OutputLogProbs, reference: OutputLogProbs) => {
        for (const [i, all] of reference.topLogprobs.entries()) {
          expect(all.tokenIds).toHaveLength(VOCAB);
          const best = own.topLogprobs[i]!;
          expect(best.tokenIds).toEqual([...all.tokenIds.slice(0, 3), ...chosen]);
          const told = own.tokenIdsLogprobs[i]!;
          expect(told.tokenIds).toEqual(chosen);
          expect(best.values.slice(3)).toEqual(told.values);
          for (const id of chosen) expect(of(told, id)).toBeCloseTo(of(all, id)!, 3);
        }
      };
      check(generated.completes[0]!.outputLogprobs!, all.completes[0]!.outputLogprobs!);
      for (const [i, { outputLogprobs }] of generated.chunks[0]!.entries()) {
        check(outputLogprobs!, all.chunks[0]![i]!.outputLogprobs!);
      }
      const input = generated.chunks[0]![0]!.inputLogprobs!;
      const reference = all.chunks[0]![0]!.inputLogprobs!;
      expect(input.topLogprobs[0]).toMatchObject({ values: [], tokenIds: [] });
      for (const [i, best] of input.topLogprobs.slice(1).entries()) {
        expect(best.tokenIds.slice(3)).toEqual(chosen);
        for (const id of chosen) {
          expect(best.values[3 + chosen.indexOf(id)]).toBeCloseTo(of(reference.topLogprobs[i + 1]!, id)!, 3);
        }
      }
    }
  });

  test("a whole vocabulary's logprobs are those of probabilities that sum to one", async () => {
    const generated = await run(
      PROMPT_IDS,
      { maxNewTokens: 2, temperature: 0.8, customParams: { seed: 1 } },
      { returnLogprob: true, topLogprobsNum: VOCAB, stream: false },
    );
    for (const { values, tokenIds } of generated.completes[0]!.outputLogprobs!.topLogprobs) {
      expect(new Set(tokenIds).size).toBe(VOCAB);
      expect(values.reduce((sum, value) => sum + Math.exp(value), 0)).toBeCloseTo(1, 3);
      expect(values.every((value, k) => k === 0 || value <= values[k - 1]!)).toBe(true);
    }
  });
});

describe('input_embeds', () => {
  const HIDDEN = 64;
  let rows: Float32Array;
  const embedsOf = (ids: readonly number[]) => ids.flatMap((id) => [...rows.subarray(id * HIDDEN, (id + 1) * HIDDEN)]);

  beforeAll(async () => {
    const bytes = await readFile(join(bundledModel, 'model.safetensors'));
    const checkpoint = await openSafetensors(bytesSource('model.safetensors', bytes));
    const embedding = checkpoint.tensors.get('model.embed_tokens.weight')!;
    expect(embedding).toMatchObject({ dtype: 'F32', shape: [VOCAB, HIDDEN] });
    rows = new Float32Array(Uint8Array.from(await checkpoint.read(embedding)).buffer);
  });

  test("the model's own rows make what the ids make", async () => {
    for (const { ids, greedy, input_logprobs } of cases.cases) {
      const generated = await run(
        ids,
        { maxNewTokens: 20, ignoreEos: true },
        { inputEmbeds: embedsOf(ids), returnLogprob: true, logprobStartLen: 0 },
      );
      expect(idsOf(generated)).toEqual(greedy.slice(0, 20));
      const { tokenLogprobs } = generated.chunks[0]![0]!.inputLogprobs!;
      for (const [i, { value }] of tokenLogprobs.entries()) {
        const expected = input_logprobs[i] as number | null;
        if (expected !== null) expect(Math.abs(value! - expected)).toBeLessThan(cases.tolerance.logprob);
      }
    }
  });

  test('others count in place of the ids, and no prefix is taken for another', async () => {
    const shown = cases.cases[2]!;
    const hidden = cases.cases[4]!.ids.slice(0, shown.ids.length);
    const sampling = { maxNewTokens: 16, ignoreEos: true };
    const plain = idsOf(await run(hidden, sampling));
    for (let i = 0; i < 2; i++) {
      const generated = await run(shown.ids, sampling, { inputEmbeds: embedsOf(hidden) });
      expect(idsOf(generated)).toEqual(plain);
      expect(idsOf(await run(shown.ids, sampling))).toEqual(shown.greedy.slice(0, 16));
      expect(idsOf(await run(hidden, sampling))).toEqual(plain);
    }
  });

  test('another number of values is refused', async () => {
    const failure = await failureOf(run(PROMPT_IDS, {}, { inputEmbeds: embedsOf(PROMPT_IDS).slice(1) }));
    expect(failure).toMatchObject({ code: 'InvalidArgument', message: expect.stringContaining('input_embeds') });
  });
});

describe('lengths and stops', () => {
  test.each([true, false])('max_new_tokens 0 is the prompt alone, with its logprobs; stream %s', async (stream) => {
    const { ids, input_logprobs } = cases.cases[1]!;
    const generated = await run(ids, { maxNewTokens: 0 }, { returnLogprob: true, logprobStartLen: 0, stream });
    expect(generated.chunks).toEqual([]);
    const complete = generated.completes[0]!;
    expect(complete).toMatchObject({ outputIds: [], finishReason: 'length', promptTokens: 5, completionTokens: 0 });
    expect(complete.inputLogprobs?.tokenIds).toEqual(ids);
    for (const [i, { value }] of complete.inputLogprobs!.tokenLogprobs.entries()) {
      const expected = input_logprobs[i] as number | null;
      if (expected === null) expect(value).toBeUndefined();
      else expect(Math.abs(value! - expected)).toBeLessThan(cases.tolerance.logprob);
    }
  });

  test('min_new_tokens keeps stop ids and EOS away until then', async () => {
    const [first] = OUTPUT_IDS as [number];
    const stopped = await run(PROMPT_IDS, { maxNewTokens: 20, stopTokenIds: [first] });
    expect(idsOf(stopped)).toEqual([first]);
    const later = await run(PROMPT_IDS, { maxNewTokens: 60, minNewTokens: 5, stopTokenIds: [first] });
    expect(idsOf(later).slice(0, 5)).not.toContain(first);
    expect(idsOf(later).length).toBeGreaterThanOrEqual(5);
    // A bias can't bring back what is masked.
    const biased = await run(PROMPT_IDS, {
      maxNewTokens: 20,
      minNewTokens: 3,
      stopTokenIds: [first],
      logitBias: { [first]: 1000 },
    });
    expect(idsOf(biased)).toHaveLength(4);
    expect(biased.completes[0]).toMatchObject({ finishReason: 'stop', matchedStop: { value: first } });
    expect(idsOf(biased).indexOf(first)).toBe(3);
  });

  test('ignore_eos switches stop ids off too, and no stop string', async () => {
    const [first] = OUTPUT_IDS as [number];
    const on = await run(PROMPT_IDS, { maxNewTokens: 10, stopTokenIds: [first], ignoreEos: true });
    expect(idsOf(on)).toEqual(OUTPUT_IDS.slice(0, 10));
    const off = await run(PROMPT_IDS, { maxNewTokens: 10, stop: [','], ignoreEos: true });
    expect(idsOf(off)).toEqual([first]);
  });
});

test('what only describes a request is taken: timestamp, log_metrics, no_stop_trim', async () => {
  const generated = await run(
    PROMPT_IDS,
    { maxNewTokens: 5, noStopTrim: true, spacesBetweenSpecialTokens: false },
    { timestamp: timestampFromDate(new Date(0)), logMetrics: true },
  );
  expect(idsOf(generated)).toEqual(OUTPUT_IDS.slice(0, 5));
});

test.each([
  ['mm_inputs', { mmInputs: create(MultimodalInputsSchema, { imageUrls: ['x'] }) }],
  ['custom_logit_processor', { customLogitProcessor: 'x' }],
  ['disaggregated_params', { disaggregatedParams: create(DisaggregatedParamsSchema, {}) }],
  ['lora_id', { loraId: 'x' }],
])('%s is refused by name', async (field, more) => {
  const failure = await failureOf(run(PROMPT_IDS, { maxNewTokens: 5 }, more));
  expect(['Unimplemented', 'InvalidArgument']).toContain(failure.code);
  expect(failure.message).toContain(field);
});

test('the page has written no error to its console', () => {
  expect(serving.browser.errors).toEqual([]);
});
