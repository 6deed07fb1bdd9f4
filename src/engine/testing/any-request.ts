import fc from 'fast-check';
import { Random } from '../../gpu/testing/random.ts';
import { tinyModel } from '../../model/testing/tiny-model.ts';
import type { Constraint, EngineRequest } from '../request.ts';
import type { IdAutomaton } from './id-grammars.ts';
import { letterTokens, request, sampling } from './serve.ts';

export const VOCAB = 40;
const HIDDEN = 16;
/** What the tests' constraints know as the end. */
export const STOP_IDS = [2];
export const CONTEXT = 96;
export const TINY = tinyModel(7, { vocabSize: VOCAB, hiddenSize: HIDDEN, contextLength: CONTEXT });
export const TINY_TOKENS = letterTokens(VOCAB);
export const MOST_TOP = 5;

/** Now and then; else nothing. */
const seldom = <T>(value: fc.Arbitrary<T>, weight = 1, nothing = 4): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: nothing, arbitrary: fc.constant(undefined) }, { weight, arbitrary: value });
const id = fc.nat(VOCAB - 1);

const anyPrompt = fc
  .record({
    // Prompts that often begin alike, and part anywhere.
    book: fc.nat(2),
    length: fc.nat(45),
    own: fc.array(id, { minLength: 1, maxLength: 8 }),
  })
  .map(({ book, length, own }) => [...Array.from({ length }, (_, i) => (i * (7 + book) + book) % VOCAB), ...own]);

const anySampling = fc.record({
  temperature: fc.constantFrom(0, 0, 0.8, 1.5),
  seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  frequencyPenalty: fc.constantFrom(0, 0, 0, 0.7, -1),
  presencePenalty: fc.constantFrom(0, 0, 0, 1.2),
  repetitionPenalty: fc.constantFrom(1, 1, 1, 1.5),
  minNewTokens: fc.constantFrom(0, 0, 0, 3, 12),
  biases: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    {
      weight: 1,
      arbitrary: fc.uniqueArray(fc.record({ id, bias: fc.constantFrom(-100, -2, 3, 9) }), {
        maxLength: 4,
        selector: (one) => one.id,
      }),
    },
  ),
});

/** Constraints for IdGrammars. */
export const anyIdConstraint = fc
  .record<IdAutomaton>({
    seed: fc.nat(),
    states: fc.integer({ min: 1, max: 6 }),
    density: fc.constantFrom(1, 4, 4, 16),
    ends: fc.integer({ min: 1, max: 4 }),
  })
  .chain((automaton) =>
    fc
      .constantFrom(undefined, undefined, undefined, undefined, 'refused' as const, 3)
      .map((fault): Constraint => ({ kind: 'regex', text: JSON.stringify({ ...automaton, fault }) })),
  );

/** A request as an act of a schedule asks for it, with one of `adapters` or none, and how many of its tokens were made elsewhere. */
export const anyRequest = (anyConstraint: fc.Arbitrary<Constraint>, constrained: number, adapters: readonly string[]) =>
  fc.record({
    prompt: anyPrompt,
    embedsSeed: seldom(fc.nat(), 1, 8),
    maxNewTokens: fc.nat(40),
    sampling: anySampling,
    n: fc.integer({ min: 1, max: 3 }),
    stopTokenIds: fc.array(id, { maxLength: 1 }),
    stopStrings: fc.array(fc.stringMatching(/^[a-h]{1,2}$/), { maxLength: 2 }),
    credit: fc.integer({ min: 1, max: 30 }),
    priority: fc.nat(2),
    // Asked for seldom, since such rows are never several at once.
    outputLogprobs: fc.boolean(),
    topLogprobs: fc.constantFrom(0, 0, 0, 2, MOST_TOP),
    logprobIds: fc.oneof(
      { weight: 5, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(id, { minLength: 1, maxLength: 3 }) },
    ),
    logprobStart: seldom(fc.nat(60), 1, 2),
    hiddenStates: fc.constantFrom(false, false, false, false, true),
    constraint: seldom(anyConstraint, constrained),
    emitted: fc.constantFrom(0, 0, 0, 0, 6),
    loraId: fc.constantFrom(undefined, ...adapters),
  });
export type AskedRequest = ReturnType<typeof anyRequest> extends fc.Arbitrary<infer T> ? T : never;

export function requestOf(jobId: bigint, asked: AskedRequest): EngineRequest {
  const { prompt, embedsSeed, maxNewTokens, n, credit, logprobStart, emitted: _, loraId, ...rest } = asked;
  const embeds = embedsSeed === undefined ? undefined : new Random(embedsSeed).normals(prompt.length * HIDDEN, 1);
  return request(jobId, prompt, {
    ...rest,
    ...(embeds === undefined ? {} : { inputEmbeds: embeds }),
    ...(loraId === undefined ? {} : { loraId }),
    maxNewTokens,
    logprobStart: logprobStart === undefined ? undefined : Math.min(logprobStart, prompt.length),
    sampling: sampling({
      ...asked.sampling,
      minNewTokens: Math.min(asked.sampling.minNewTokens, maxNewTokens),
      maskedStopIds: [...STOP_IDS, ...rest.stopTokenIds],
    }),
    samples: Array.from({ length: n }, (_, index) => ({ index, credit, emittedIds: [] })),
  });
}
