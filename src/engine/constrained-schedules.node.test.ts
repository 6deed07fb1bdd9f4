import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { CpuRunner } from '../model/cpu-runner.ts';
import { nodeGrammarWorkers } from '../testing/grammar-worker.node.ts';
import { GrammarPool } from './grammar/grammar-pool.ts';
import { grammarVocabulary } from './grammar/grammar-vocabulary.ts';
import type { Constraint } from './request.ts';
import { STOP_IDS, TINY, TINY_TOKENS, VOCAB } from './testing/any-request.ts';
import { outcomesAlone } from './testing/outcome.ts';
import { anySchedule, LIMITS, nothingReached, RUNNER_OPTIONS, runSchedule } from './testing/schedules.ts';

const grammars = new GrammarPool(grammarVocabulary(TINY_TOKENS, VOCAB, STOP_IDS), await nodeGrammarWorkers());
afterAll(() => grammars.destroy());

/** Over letters: the tiny vocabulary has no others. Some can't be met, and one is wrong. */
const anyConstraint = fc.constantFrom<Constraint>(
  { kind: 'regex', text: '[a-h]{3,8}' },
  { kind: 'regex', text: '(ab|de|[u-z]{2})+' },
  { kind: 'regex', text: '.*' },
  { kind: 'regex', text: 'hello|help|goodbye' },
  { kind: 'regex', text: '(' },
  { kind: 'ebnf_grammar', text: 'root ::= "a" root "b" | [k-m]' },
  { kind: 'json_schema', text: '{"type":"object"}' },
);

test('random schedules with the page’s own grammars: each sample has what it has alone', async () => {
  const open = () => CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  const alone = outcomesAlone(open, LIMITS, grammars);
  const reached = nothingReached();
  const runs = import.meta.env.SHOAL_LONG === '1' ? 500 : 25;
  const property = fc.asyncProperty(anySchedule(anyConstraint, 4), (schedule) =>
    runSchedule(schedule, open, alone, reached, grammars),
  );
  await fc.assert(property, { numRuns: runs, endOnFailure: true });
  expect(reached.maskedSteps).toBeGreaterThan(runs * 3);
  expect(reached.constrained).toBeGreaterThan(runs / 3);
}, 1_800_000);
