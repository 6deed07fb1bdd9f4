// Structured output over gRPC through a page in a real browser, and what hostile constraints do to it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SamplingParams } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { collect, failureOf, greedyRequest, idsOf } from './harness/scheduler.ts';
import { openServing, type Serving } from './harness/serving.ts';
import { CASE_OF, STRUCTURED } from './harness/structured.ts';
import { textOf } from './harness/tokens.ts';
import { within } from './harness/wait.ts';

type Constraint = SamplingParams['constraint'];

let serving: Serving;

beforeAll(async () => {
  serving = await openServing();
});

afterAll(async () => {
  await serving?.close();
});

const run = (constraint: Constraint, sampling: Parameters<typeof greedyRequest>[1] = {}) =>
  collect(serving.client, greedyRequest(PROMPT_IDS, { maxNewTokens: 400, ...sampling, constraint }));

describe('what is finished holds', () => {
  test.each(STRUCTURED.map((each) => [`${each.kind}: ${each.name}`, each] as const))('%s', async (_, each) => {
    const constraint = { case: CASE_OF[each.kind], value: each.text };
    const all = await Promise.all(
      [0, 0.7, 1.5].map((temperature) =>
        run(constraint, { temperature, n: temperature === 0 ? 1 : 4, customParams: { seed: 11 } }),
      ),
    );
    for (const generated of all) {
      for (const [index, { outputIds, finishReason }] of generated.completes.entries()) {
        expect(idsOf(generated, index)).toEqual(outputIds);
        const text = textOf(outputIds);
        // Its language is finite: each ends by itself.
        expect(finishReason, text).toBe('stop');
        expect(each.holds(text), text).toBe(true);
      }
    }
  });

  test('the empty output, also where min_new_tokens stands against it; its prompt is told', async () => {
    const sampling = { maxNewTokens: 20, minNewTokens: 1, constraint: { case: 'regex', value: '' } } as const;
    const told = { returnHiddenStates: true, returnLogprob: true, logprobStartLen: 0 };
    const { chunks, completes } = await collect(serving.client, greedyRequest(PROMPT_IDS, sampling, told));
    expect(chunks).toEqual([]);
    expect(completes[0]).toMatchObject({ outputIds: [], finishReason: 'stop', matchedStop: { case: undefined } });
    expect(completes[0]?.inputLogprobs?.tokenIds).toEqual(PROMPT_IDS);
    expect(completes[0]?.allHiddenStates).toMatchObject([{ position: PROMPT_IDS.length - 1, values: { length: 64 } }]);
  });

  test('beside rows without a constraint, which are as they are alone', async () => {
    const each = STRUCTURED[0]!;
    const constraint = { case: CASE_OF[each.kind], value: each.text } as Constraint;
    const plain = () => collect(serving.client, greedyRequest(PROMPT_IDS, { maxNewTokens: 80 }));
    const alone = await run(constraint);
    const [first, second, constrained] = await Promise.all([
      plain(),
      plain(),
      run(constraint),
      run(constraint, { temperature: 1 }),
    ]);
    expect(idsOf(first)).toEqual(OUTPUT_IDS.slice(0, 80));
    expect(idsOf(second)).toEqual(OUTPUT_IDS.slice(0, 80));
    expect(idsOf(constrained)).toEqual(idsOf(alone));
  });

  test('with penalties, biases and min_new_tokens', async () => {
    const constraint: Constraint = { case: 'regex', value: '[a-c]{1,30}' };
    const sampling = { frequencyPenalty: 1, repetitionPenalty: 1.2, minNewTokens: 4, temperature: 1 };
    const generated = await run(constraint, { ...sampling, n: 4, customParams: { seed: 2 } });
    for (const { outputIds, finishReason } of generated.completes) {
      expect(finishReason).toBe('stop');
      expect(outputIds.length).toBeGreaterThan(4);
      expect(textOf(outputIds)).toMatch(/^[a-c]{1,30}$/);
    }
  });

  test('logprobs are those after the mask', async () => {
    const request = greedyRequest(
      PROMPT_IDS,
      { maxNewTokens: 20, constraint: { case: 'regex', value: '(yes|no)' } },
      { returnLogprob: true, topLogprobsNum: 512, stream: false },
    );
    const { topLogprobs } = (await collect(serving.client, request)).completes[0]!.outputLogprobs!;
    for (const { values } of topLogprobs) {
      expect(values.reduce((sum, value) => sum + Math.exp(value), 0)).toBeCloseTo(1, 3);
      // What may not come has the least float's logprob; of 512 tokens few begin such a word.
      expect(values.filter((value) => value > -1e30).length).toBeLessThan(10);
    }
  });

  test('an end that is cut by its length is "length", and what there is may go on', async () => {
    const generated = await run({ case: 'regex', value: '[a-c]{40}' }, { maxNewTokens: 10 });
    expect(generated.completes[0]).toMatchObject({ finishReason: 'length', completionTokens: 10 });
    expect(textOf(idsOf(generated))).toMatch(/^[a-c]{10,40}$/);
  });
});

describe('a constraint that is wrong', () => {
  test.each<[string, Constraint, string]>([
    ['no JSON', { case: 'jsonSchema', value: '{' }, 'json_schema'],
    ['a schema of no type', { case: 'jsonSchema', value: '{"type":"fish"}' }, 'json_schema'],
    ['an open group', { case: 'regex', value: '(' }, 'regex'],
    ['no root', { case: 'ebnfGrammar', value: 'a ::= "b"' }, 'ebnf_grammar'],
    ['an undefined rule', { case: 'ebnfGrammar', value: 'root ::= b' }, 'ebnf_grammar'],
    ['no tag', { case: 'structuralTag', value: '{"tag":1}' }, 'structural_tag'],
  ])('%s is INVALID_ARGUMENT that names the field', async (_, constraint, field) => {
    const failure = await within('the refusal', 10_000, failureOf(run(constraint)));
    expect(failure).toMatchObject({ code: 'InvalidArgument', message: expect.stringContaining(field) });
  });
});

interface Hostile {
  readonly name: string;
  readonly constraint: Constraint;
  /** Whether a text that is finished within 20 tokens is one; undefined where none can be. */
  readonly holds?: (text: string) => boolean;
}

const MANY_VALUES = Array.from({ length: 60_000 }, (_, i) => `value ${i}`);

/** Of what is a megabyte long, one kind takes the whole time to compile in the short tier. */
const LONG: readonly Hostile[] =
  process.env.SHOAL_LONG === '1'
    ? [
        {
          name: '1 MB of schema',
          constraint: { case: 'jsonSchema', value: JSON.stringify({ enum: MANY_VALUES }) },
          holds: (text) => MANY_VALUES.includes(JSON.parse(text)),
        },
      ]
    : [];

/** Constraints made to cost time or memory without end. */
const HOSTILE: readonly Hostile[] = [
  ...LONG,
  {
    name: 'a regex of nested repetition',
    constraint: { case: 'regex', value: '((((a{1,100}){1,100}){1,100}){1,100}){1,100}' },
    holds: (text) => /^a+$/.test(text),
  },
  {
    name: 'a catastrophic regex',
    constraint: { case: 'regex', value: '(a|aa|(a+)+)+'.repeat(20) },
    holds: (text) => /^a{20,}$/.test(text),
  },
  { name: 'a hundred thousand repetitions', constraint: { case: 'regex', value: '[a-z]{100000}' } },
  { name: '1 MB of regex', constraint: { case: 'regex', value: '(a|b)'.repeat(200_000) } },
  {
    name: 'a schema of 10,000 levels',
    constraint: { case: 'jsonSchema', value: `${'{"type":"array","items":'.repeat(10_000)}{}${'}'.repeat(10_000)}` },
    holds: (text) => Array.isArray(JSON.parse(text)),
  },
  { name: 'a schema that is itself', constraint: { case: 'jsonSchema', value: '{"$ref":"#"}' } },
  {
    name: 'a million items',
    constraint: { case: 'jsonSchema', value: '{"type":"array","items":{"type":"null"},"minItems":1000000}' },
  },
  { name: 'left recursion', constraint: { case: 'ebnfGrammar', value: 'root ::= root "a"' } },
  { name: 'a rule that never ends', constraint: { case: 'ebnfGrammar', value: 'root ::= "a" root' } },
  {
    name: 'an empty loop',
    constraint: { case: 'ebnfGrammar', value: 'root ::= (""*)*' },
    holds: (text) => text === '',
  },
  {
    name: '1 MB of EBNF',
    constraint: {
      case: 'ebnfGrammar',
      value: `root ::= "a"\n${Array.from({ length: 50_000 }, (_, i) => `r${i} ::= "a" r${i}`).join('\n')}`,
    },
    holds: (text) => text === 'a',
  },
];

test.each(HOSTILE)('$name ends in time, and another stream runs on', async ({ name, constraint, holds }) => {
  const times: number[] = [];
  const stop = new AbortController();
  const other = collect(serving.client, greedyRequest(PROMPT_IDS, { maxNewTokens: 500, ignoreEos: true, n: 2 }), {
    onChunk: () => times.push(performance.now()),
    signal: stop.signal,
  });
  const begun = performance.now();
  const hostile = run(constraint, { maxNewTokens: 20 }).then(
    (generated) => ({ end: generated.completes[0]!.finishReason, text: textOf(idsOf(generated)) }),
    async (error: unknown) => ({ end: (await failureOf(Promise.reject(error))).code, text: '' }),
  );
  const { end, text } = await within('the end', 20_000, hostile);
  const took = performance.now() - begun;
  stop.abort();
  await other.catch(() => {});
  if (end === 'stop') expect(holds?.(text) ?? false, `finished with ${JSON.stringify(text)}`).toBe(true);
  else expect(['InvalidArgument', 'ResourceExhausted', 'length']).toContain(end);
  const during = times.filter((at) => at - begun < took);
  const gap = Math.max(0, ...during.map((at, i) => at - (during[i - 1] ?? begun)));
  console.log(`${name}: ${end} after ${took.toFixed(0)} ms; longest gap ${gap.toFixed(0)} ms of ${during.length}`);
  // A compilation may take 5 s: who waited for it would stand still that long.
  expect(gap).toBeLessThan(3_500);
});

test('afterwards the reference text comes as ever', async () => {
  const generated = await collect(serving.client, greedyRequest(PROMPT_IDS, { maxNewTokens: 196 }));
  expect(idsOf(generated)).toEqual(OUTPUT_IDS);
  expect(serving.browser.errors).toEqual([]);
});
