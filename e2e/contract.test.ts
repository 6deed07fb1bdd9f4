// Reference values of the whole contract, over gRPC through a page in a real browser.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { InputLogProbs, TopLogProbs } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { cases, OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { expectNear, expectTop, type Pair } from './harness/near.ts';
import { collect, greedyRequest, idsOf } from './harness/scheduler.ts';
import { openServing, type Serving } from './harness/serving.ts';

const TOLERANCE = cases.tolerance;

let serving: Serving;

beforeAll(async () => {
  serving = await openServing();
});

afterAll(async () => {
  await serving?.close();
});

describe('ids under penalties, biases and min_new_tokens', () => {
  test.each(
    cases.penalties.map(({ params, ...each }) => {
      const set = Object.entries(params).filter(([, value]) => value !== 0 && JSON.stringify(value) !== '{}');
      return [`${JSON.stringify(each.prompt)}, ${JSON.stringify(Object.fromEntries(set))}`, each, params] as const;
    }),
  )('%s', async (_, { ids, output_ids }, params) => {
    const generated = await collect(
      serving.client,
      greedyRequest(ids, {
        maxNewTokens: params.max_new_tokens,
        ignoreEos: true,
        frequencyPenalty: params.frequency_penalty,
        presencePenalty: params.presence_penalty,
        repetitionPenalty: params.repetition_penalty,
        minNewTokens: params.min_new_tokens,
        logitBias: Object.fromEntries(Object.entries(params.logit_bias)) as Record<string, number>,
      }),
    );
    expect(idsOf(generated)).toEqual(output_ids);
    expect(generated.completes[0]).toMatchObject({ outputIds: output_ids, finishReason: 'length' });
  });

  test('all at once, and beside plain ones, each is as it is alone', async () => {
    const all = await Promise.all(
      cases.penalties.map(({ ids, params }) =>
        collect(
          serving.client,
          greedyRequest(ids, {
            maxNewTokens: params.max_new_tokens,
            ignoreEos: true,
            frequencyPenalty: params.frequency_penalty,
            presencePenalty: params.presence_penalty,
            repetitionPenalty: params.repetition_penalty,
            minNewTokens: params.min_new_tokens,
            logitBias: Object.fromEntries(Object.entries(params.logit_bias)) as Record<string, number>,
          }),
        ),
      ),
    );
    expect(all.map((each) => idsOf(each))).toEqual(cases.penalties.map(({ output_ids }) => output_ids));
  });
});

describe("the prompt's logprobs", () => {
  test.each(
    cases.cases.map((each) => [`${JSON.stringify(each.prompt)}${each.bos ? ' after BOS' : ''}`, each] as const),
  )('%s: each token but the first, and the five best', async (_, { ids, greedy, input_logprobs, input_top5 }) => {
    const ask = (stream: boolean, start: number) =>
      collect(
        serving.client,
        greedyRequest(
          ids,
          { maxNewTokens: 3, ignoreEos: true },
          { returnLogprob: true, topLogprobsNum: 5, logprobStartLen: start, stream },
        ),
      );
    const check = (actual: InputLogProbs | undefined, start: number) => {
      expect(actual?.tokenIds).toEqual(ids.slice(start));
      expect(actual?.tokenLogprobs).toHaveLength(ids.length - start);
      for (const [i, { value }] of actual!.tokenLogprobs.entries()) {
        const expected = input_logprobs[start + i] as number | null;
        if (expected === null) expect(value).toBeUndefined();
        else expect(Math.abs(value! - expected)).toBeLessThan(TOLERANCE.logprob);
        const top = input_top5[start + i] as Pair[] | null;
        if (top === null) expect(actual!.topLogprobs[i]).toMatchObject({ values: [], tokenIds: [] });
        else expectTop(actual!.topLogprobs[i]!, top);
      }
    };
    const streamed = await ask(true, 0);
    const [first, ...rest] = streamed.chunks[0]!;
    check(first!.inputLogprobs, 0);
    // Once, in the first chunk.
    expect(rest.every(({ inputLogprobs }) => inputLogprobs === undefined)).toBe(true);
    expect(idsOf(streamed)).toEqual(greedy.slice(0, 3));
    // In the complete, where there is no stream; the prefix that the first request left behind changes nothing.
    const whole = await ask(false, 0);
    expect(whole.chunks).toEqual([]);
    check(whole.completes[0]!.inputLogprobs, 0);
    const from = Math.min(2, ids.length - 1);
    check((await ask(true, from)).chunks[0]![0]!.inputLogprobs, from);
    const none = await ask(true, -1);
    expect(none.chunks[0]!.every(({ inputLogprobs }) => inputLogprobs === undefined)).toBe(true);
    expect(none.completes[0]!.inputLogprobs).toBeUndefined();
  });

  test('are those of the output, where the output comes back as a prompt: over several chunks of it', async () => {
    for (const { ids, greedy, output_logprobs } of cases.cases) {
      const prompt = [...ids, ...greedy];
      const generated = await collect(
        serving.client,
        greedyRequest(prompt, { maxNewTokens: 1 }, { returnLogprob: true, logprobStartLen: ids.length }),
      );
      const { tokenLogprobs, tokenIds } = generated.chunks[0]![0]!.inputLogprobs!;
      expect(tokenIds).toEqual(greedy);
      expectNear(
        tokenLogprobs.map(({ value }) => value!),
        output_logprobs,
        TOLERANCE.logprob,
      );
    }
  });
});

describe('hidden states', () => {
  test.each(
    cases.cases.map((each) => [`${JSON.stringify(each.prompt)}${each.bos ? ' after BOS' : ''}`, each] as const),
  )('%s: of the last prompt position', async (_, { ids, last_prompt_hidden }) => {
    for (const [stream, maxNewTokens] of [
      [true, 2],
      [false, 1],
      [true, 0],
      [false, 0],
    ] as const) {
      const generated = await collect(
        serving.client,
        greedyRequest(ids, { maxNewTokens, ignoreEos: true }, { returnHiddenStates: true, stream }),
      );
      const all = generated.completes[0]!.allHiddenStates;
      expect(all.map(({ position }) => position)).toEqual(
        Array.from({ length: Math.max(1, maxNewTokens) }, (_, i) => ids.length - 1 + i),
      );
      expectNear(all[0]!.values, last_prompt_hidden, TOLERANCE.hidden);
      const [chunk] = generated.chunks[0] ?? [];
      if (chunk) expectNear(chunk.hiddenStates, last_prompt_hidden, TOLERANCE.hidden);
    }
  });

  test('of each output position are those of a prompt that ends there', async () => {
    const count = 12;
    const generated = await collect(
      serving.client,
      greedyRequest(PROMPT_IDS, { maxNewTokens: count, ignoreEos: true }, { returnHiddenStates: true }),
    );
    expect(idsOf(generated)).toEqual(OUTPUT_IDS.slice(0, count));
    const chunks = generated.chunks[0]!.map(({ hiddenStates }) => hiddenStates);
    const { allHiddenStates } = generated.completes[0]!;
    expect(allHiddenStates.map(({ values }) => values)).toEqual(chunks);
    expect(allHiddenStates.map(({ position }) => position)).toEqual(chunks.map((_, i) => PROMPT_IDS.length - 1 + i));
    for (const i of [1, 5, count - 1]) {
      const prompt = [...PROMPT_IDS, ...OUTPUT_IDS.slice(0, i)];
      const alone = await collect(
        serving.client,
        greedyRequest(prompt, { maxNewTokens: 0 }, { returnHiddenStates: true }),
      );
      expectNear(chunks[i]!, alone.completes[0]!.allHiddenStates[0]!.values, TOLERANCE.hidden);
    }
  });
});

describe('draws', () => {
  const DRAWS = 64;
  const points = cases.sampling.flatMap(({ prompt, ids, temperatures }) =>
    Object.entries(temperatures).map(
      ([temperature, values]) =>
        [`${JSON.stringify(prompt)} at ${temperature}`, ids, Number(temperature), values] as const,
    ),
  );

  test.each(points)(
    '%s: only ids that top_p, min_p and top_k keep, as often as they should',
    async (_, ids, temperature, { top12, kept_top_p, kept_min_p }) => {
      const kept = [
        ...Object.entries(kept_top_p).map(([p, count]) => ({ sampling: { topP: Number(p) }, count })),
        ...Object.entries(kept_min_p).map(([p, count]) => ({ sampling: { minP: Number(p) }, count })),
        { sampling: { topK: 3 }, count: 3 },
        // Each by itself keeps more.
        { sampling: { topK: 2, topP: 0.999, minP: 1e-6 }, count: 2 },
      ];
      const most = Math.max(...kept.map(({ count }) => count), top12.length);
      const drawn = await Promise.all(
        kept.map(({ sampling, count }) =>
          collect(
            serving.client,
            greedyRequest(
              ids,
              {
                maxNewTokens: 1,
                ignoreEos: true,
                temperature,
                n: DRAWS,
                customParams: { seed: 7 + count },
                ...sampling,
              },
              { returnLogprob: true, topLogprobsNum: most },
            ),
          ),
        ),
      );
      // Logprobs are those before the choice: the likeliest ids, of which the golden ones are the first twelve.
      const [{ values, tokenIds: likeliest }] = drawn[0]!.completes[0]!.outputLogprobs!.topLogprobs as [TopLogProbs];
      for (const [k, [id, probability]] of (top12 as unknown as Pair[]).entries()) {
        expect(Math.abs(values[k]! - Math.log(probability))).toBeLessThan(TOLERANCE.logprob);
        expect(Math.abs(values[likeliest.indexOf(id)]! - Math.log(probability))).toBeLessThan(TOLERANCE.logprob);
      }
      for (const [i, { sampling, count }] of kept.entries()) {
        const counts = new Map<number, number>();
        for (const { outputIds } of drawn[i]!.completes)
          counts.set(outputIds[0]!, (counts.get(outputIds[0]!) ?? 0) + 1);
        const set = likeliest.slice(0, count);
        const surplus = [...counts.keys()].filter((id) => !set.includes(id));
        expect(surplus, `${JSON.stringify(sampling)} keeps ${set}`).toEqual([]);
        const mass = values.slice(0, count).reduce((sum, logprob) => sum + Math.exp(logprob), 0);
        for (const [k, id] of set.entries()) {
          const share = Math.exp(values[k]!) / mass;
          // Five standard deviations: with fixed seeds this holds always or never.
          const slack = 5 * Math.sqrt(DRAWS * share * (1 - share)) + 1;
          expect(Math.abs((counts.get(id) ?? 0) - DRAWS * share)).toBeLessThanOrEqual(slack);
        }
      }
    },
  );
});

test('the page has written no error to its console', () => {
  expect(serving.browser.errors).toEqual([]);
});
