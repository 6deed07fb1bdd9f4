import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CpuRunner } from '../model/cpu-runner.ts';
import { tinyModel } from '../model/testing/tiny-model.ts';
import { CONTEXT, TINY, VOCAB } from './testing/any-request.ts';
import { outcomesAlone } from './testing/outcome.ts';
import { anySchedule, ID_GRAMMARS, LIMITS, nothingReached, RUNNER_OPTIONS, runSchedule } from './testing/schedules.ts';

const THREE = tinyModel(8, { vocabSize: VOCAB, hiddenSize: 16, contextLength: CONTEXT, layers: 3 });

describe.each([
  ['layers without and with windows', THREE, [24, undefined, 9]],
  ['a window in every layer', TINY, [20]],
])('%s, under random schedules', (_, { checkpoint, config }, windows) => {
  const open = () => CpuRunner.load(checkpoint, config, { ...RUNNER_OPTIONS, windows });
  const alone = outcomesAlone(open, LIMITS, ID_GRAMMARS);

  it('give each sample the ids it has alone, and hold no more than window, chunk and a block', async () => {
    const reached = nothingReached();
    const long = import.meta.env.SHOAL_LONG === '1';
    const runs = long ? 1_000 : 15;
    const property = fc.asyncProperty(anySchedule(), (schedule) => runSchedule(schedule, open, alone, reached));
    await fc.assert(property, { numRuns: runs, endOnFailure: true });
    expect(reached.cachedTokens).toBeGreaterThan(0);
    if (!long) return;
    expect(reached.cachedTokens).toBeGreaterThan(runs * 5);
    expect(reached.retractions).toBeGreaterThan(runs / 5);
    expect(reached.repeatedSteps).toBeGreaterThan(runs / 4);
  }, 1_800_000);
});
