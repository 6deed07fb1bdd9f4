import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { CpuRunner } from '../model/cpu-runner.ts';
import { randomAdapter } from '../model/testing/random-adapter.ts';
import type { LoraFiles } from './lora-adapters.ts';
import { type Drafter, NgramDrafts } from './ngram-drafts.ts';
import type { EngineRequest } from './request.ts';
import { TINY, VOCAB } from './testing/any-request.ts';
import { GivenDrafts } from './testing/given-drafts.ts';
import { outcomesAlone } from './testing/outcome.ts';
import { anySchedule, ID_GRAMMARS, LIMITS, nothingReached, RUNNER_OPTIONS, runSchedule } from './testing/schedules.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';
const RUNS = LONG ? 500 : 4;

/** What comes after ids, of sequences that are known whole. */
function following(known: readonly (readonly number[])[], ids: readonly number[], most: number): number[] {
  const whole = known.find((one) => one.length > ids.length && ids.every((id, i) => one[i] === id));
  return whole ? whole.slice(ids.length, ids.length + most) : [];
}

/** One of all modules, and one of few. */
const ADAPTERS: readonly LoraFiles[] = [
  { id: 'all', ...randomAdapter(1, TINY.config, { rank: 4 }) },
  { id: 'few', ...randomAdapter(2, TINY.config, { rank: 1, targets: ['v_proj', 'down_proj'], size: 1 }) },
];
const ROOM = { most: ADAPTERS.length, maxRank: 4 };

const drafted = (ids: readonly number[]) => (ids.length === 0 ? undefined : { ids, match: 2 });
type NewDrafter = (known: readonly (readonly number[])[], random: Random) => Drafter;
/** Of the one layer, where a drafter has it. */
const WINDOW: Record<string, number> = { 'that are right for a while, over a window': 20 };
const rightForAWhile: NewDrafter = (known, random) => ({
  draft: (ids, most) => {
    const right = random.integer(0, 6);
    return drafted(following(known, ids, most).map((id, i) => (i < right ? id : random.integer(0, VOCAB - 1))));
  },
});
const DRAFTERS: Record<string, NewDrafter> = {
  'by n-grams': () => new NgramDrafts(),
  'that know what comes': (known) => ({ draft: (ids, most) => drafted(following(known, ids, most)) }),
  'that are always wrong': (known) => ({
    draft: (ids, most) => drafted(following(known, ids, most).map((id) => (id + 1) % VOCAB)),
  }),
  'that are right for a while': rightForAWhile,
  'that are right for a while, over a window': rightForAWhile,
  'at random': (_, random) => ({
    draft: (_ids, most) => drafted(Array.from({ length: random.integer(0, most) }, () => random.integer(0, VOCAB - 1))),
  }),
};

test.each(Object.keys(DRAFTERS))(
  'random schedules with drafts %s: each sample has what it has alone, without',
  async (name) => {
    const open = () =>
      CpuRunner.load(TINY.checkpoint, TINY.config, {
        ...{ ...RUNNER_OPTIONS, windows: [WINDOW[name]], adapters: ROOM },
      });
    const alone = outcomesAlone(open, LIMITS, ID_GRAMMARS, ADAPTERS);
    const reached = nothingReached();
    const counts = { drafts: 0, drafted: 0, accepted: 0 };
    const property = fc.asyncProperty(
      anySchedule(
        undefined,
        2,
        ADAPTERS.map(({ id }) => id),
      ),
      fc.nat(),
      async (schedule, seed) => {
        const random = new Random(seed);
        const drafts = async (jobs: readonly EngineRequest[]) => {
          const known: number[][] = [];
          for (const job of jobs) {
            for (const { index } of job.samples) known.push([...job.inputIds, ...(await alone(job, index)).ids]);
          }
          return new GivenDrafts(
            () => DRAFTERS[name]!(known, random),
            () => random.integer(0, 16),
          );
        };
        let given: GivenDrafts | undefined;
        await runSchedule(
          schedule,
          open,
          alone,
          reached,
          ID_GRAMMARS,
          async (jobs) => (given = await drafts(jobs)),
          ADAPTERS,
        );
        for (const what of ['drafts', 'drafted', 'accepted'] as const) counts[what] += given!.counts[what];
      },
    );
    await fc.assert(property, { numRuns: RUNS, endOnFailure: true, ...(LONG ? {} : { seed: 7 }) });
    // Wrong for its own sequence; another of the same prompt may go on so.
    if (name === 'that are always wrong') expect(counts.accepted).toBeLessThanOrEqual(counts.drafted / 100);
    // A few schedules may happen to have nothing of a kind.
    expect(reached.draftedSteps).toBeGreaterThan(LONG ? RUNS : 0);
    if (!LONG) return;
    expect(reached.maskedDrafts).toBeGreaterThan(0);
    expect(reached.adapted).toBeGreaterThan(RUNS / 4);
    if (name === 'that know what comes') expect(counts.accepted).toBeGreaterThan(counts.drafted / 2);
  },
  1_800_000,
);
