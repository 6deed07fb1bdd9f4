import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadDecoder } from '../model/load-decoder.ts';
import { testDevice } from '../testing/device.ts';
import { TINY } from './testing/any-request.ts';
import { outcomesAlone } from './testing/outcome.ts';
import { anySchedule, ID_GRAMMARS, LIMITS, nothingReached, RUNNER_OPTIONS, runSchedule } from './testing/schedules.ts';

test('random schedules on the GPU: each sample has the ids it has alone, and every block comes back', async () => {
  const runner = await loadDecoder(await testDevice(), TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  // One runner for all: what earlier schedules left in its blocks must not matter.
  const open = () => Promise.resolve(runner);
  const alone = outcomesAlone(open, LIMITS, ID_GRAMMARS);
  const reached = nothingReached();
  const long = import.meta.env.SHOAL_LONG === '1';
  const property = fc.asyncProperty(anySchedule(), (schedule) => runSchedule(schedule, open, alone, reached));
  await fc.assert(property, { numRuns: long ? 200 : 10, endOnFailure: true });
  expect(reached.cachedTokens).toBeGreaterThan(0);
  runner.destroy();
}, 900_000);
