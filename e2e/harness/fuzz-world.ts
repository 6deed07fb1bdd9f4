import fc from 'fast-check';
import type { SamplingParams } from '../../src/contract/gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from '../../src/contract/normalised-request.ts';
import type { RequestWorld } from '../../src/contract/testing/any-generate-request.ts';
import { GrammarError, type Grammars } from '../../src/engine/grammars.ts';
import { type IdAutomaton, IdGrammars } from '../../src/engine/testing/id-grammars.ts';
import { tinyModel } from '../../src/model/testing/tiny-model.ts';
import { openModel } from '../../src/relay/model/open-model.ts';
import type { ServedModel } from '../../src/relay/served-model.ts';

export const SHAPE = { vocabSize: 64, contextLength: 96, hiddenSize: 16 };
export const EOS = [2];
export const RANKS = 2;
export const POOL_TOKENS = 96 * 16;
const MODEL: ModelLimits = { ...SHAPE, eosTokenIds: EOS, poolTokens: POOL_TOKENS };

const automaton = fc.record<IdAutomaton>({
  seed: fc.nat(),
  states: fc.integer({ min: 1, max: 6 }),
  // With none, only the end may come, or nothing.
  density: fc.constantFrom(0, 4, 4, 4, 16),
  ends: fc.integer({ min: 1, max: 4 }),
  fault: fc.constantFrom(undefined, undefined, undefined, undefined, 'refused' as const) as never,
});
export const WORLD: RequestWorld = {
  model: MODEL,
  maxNewTokens: 24,
  ranks: RANKS,
  stop: fc.stringMatching(/^[a-z]{1,3}$/),
  constraint: fc.record({
    case: fc.constantFrom('regex', 'jsonSchema', 'ebnfGrammar', 'structuralTag'),
    value: automaton.map((one) => JSON.stringify(one)),
  }) as fc.Arbitrary<SamplingParams['constraint']>,
};

export const TINY_MODEL = tinyModel(11, SHAPE);

/** What a relay says of the tiny model; the files are another's. */
export async function servedTinyModel(): Promise<ServedModel> {
  return { ...(await openModel('models/stories260K')), ...SHAPE, layers: 1, eosTokenIds: EOS };
}

/** Texts that are no automata are refused, as a compiler refuses what is no grammar. */
export function strictGrammars(): Grammars {
  const inner = new IdGrammars(SHAPE.vocabSize, EOS);
  return {
    async open(constraint, outputIds) {
      const valid = (() => {
        try {
          return typeof JSON.parse(constraint.text)?.states === 'number';
        } catch {
          return false;
        }
      })();
      if (!valid) throw new GrammarError('invalid_argument', 'not a grammar');
      return inner.open(constraint, outputIds);
    },
    destroy: () => inner.destroy(),
  };
}
