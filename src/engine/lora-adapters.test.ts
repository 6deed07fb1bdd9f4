import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { AdapterFiles } from '../model/read-adapter.ts';
import { randomAdapter } from '../model/testing/random-adapter.ts';
import type { LoraError } from './lora-adapters.ts';
import type { EngineRequest } from './request.ts';
import { TINY, TINY_TOKENS, VOCAB } from './testing/any-request.ts';
import { checkBlocks } from './testing/check-blocks.ts';
import { GatedRunner, turn } from './testing/gated-runner.ts';
import { LIMITS, RUNNER_OPTIONS } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

const SLOTS = 2;
/** Contents of adapters; one leaves most of the model alone. */
const CONTENTS: readonly AdapterFiles[] = [
  randomAdapter(1, TINY.config, { rank: 4 }),
  randomAdapter(2, TINY.config, { rank: 2, targets: ['q_proj', 'v_proj'], size: 1 }),
  randomAdapter(3, TINY.config, { rank: 3 }),
];
const open = (most = SLOTS) =>
  CpuRunner.load(TINY.checkpoint, TINY.config, { ...RUNNER_OPTIONS, adapters: { most, maxRank: 4 } });

async function served(blocks: number, most = SLOTS) {
  const gated = new GatedRunner(await open(most), { blocks });
  return { gated, busy: new Served(gated, TINY_TOKENS, LIMITS), engine: undefined };
}

const known = new Map<string, Promise<readonly number[]>>();

/** Ids of a request when nothing else runs, with this adapter or none. */
function alone(asked: EngineRequest, content: number | undefined): Promise<readonly number[]> {
  const { loraId: _, ...rest } = asked;
  const key = JSON.stringify([{ ...rest, jobId: 0, samples: 0 }, content], (_key, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  const ids = known.get(key) ?? compute();
  known.set(key, ids);
  return ids;

  async function compute() {
    const { gated, busy } = await served(24);
    await gated.openForGood();
    if (content !== undefined) await busy.engine.lora.load({ id: 'only', ...CONTENTS[content]! });
    const samples = [{ index: 0, credit: 1_000_000, emittedIds: [] }];
    const own = content === undefined ? {} : { loraId: 'only' };
    const result = await busy.serve({ ...rest, jobId: 1n, samples, ...own });
    expect(result.end).toMatchObject({ type: 'finished' });
    return result.ids;
  }
}

const anyLoad = fc.record({ load: fc.nat(2), content: fc.nat(CONTENTS.length - 1) });
const anyAct = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      submit: fc.record({
        // Alike, whatever the adapter: prefixes must not be shared between adapters.
        prompt: fc.integer({ min: 1, max: 40 }),
        maxNewTokens: fc.integer({ min: 1, max: 40 }),
        temperature: fc.constantFrom(0, 0, 1),
        lora: fc.constantFrom(undefined, 0, 0, 1, 2),
        credit: fc.constantFrom(3, 1_000, 1_000),
      }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ steps: fc.integer({ min: 1, max: 10 }) }) },
  { weight: 1, arbitrary: fc.record({ abort: fc.nat(10) }) },
  { weight: 4, arbitrary: anyLoad },
  { weight: 4, arbitrary: fc.record({ unload: fc.nat(2) }) },
);

const anySchedule = fc.record({
  blocks: fc.constantFrom(5, 6, 24),
  acts: fc
    .tuple(fc.array(anyLoad, { maxLength: 2 }), fc.array(anyAct, { minLength: 4, maxLength: 30 }))
    .map(([loads, acts]) => [...loads, ...acts]),
});
type Schedule = typeof anySchedule extends fc.Arbitrary<infer T> ? T : never;

const reached = { adapted: 0, refused: 0, cached: 0, retractions: 0, waited: 0, reused: 0, mixed: 0 };

/** Runs a schedule; adapters come and go in it, and what a request names is what is loaded when it comes. */
async function run({ blocks, acts }: Schedule): Promise<void> {
  const { gated, busy } = await served(blocks);
  const { engine } = busy;
  /** Of each id that requests may name now: its content. */
  const loaded = new Map<string, number>();
  const versions = new Map<string, number>();
  const leaving: Promise<unknown>[] = [];
  /** Slots that are taken: an adapter that waits to go has its own yet. */
  let taken = 0;
  const jobs: {
    readonly asked: EngineRequest;
    readonly content: number | undefined;
    refused: boolean;
    aborted: boolean;
  }[] = [];
  for (const act of acts) {
    if ('submit' in act) {
      const { prompt, maxNewTokens, temperature, lora, credit } = act.submit;
      const jobId = BigInt(jobs.length + 1);
      const id = lora === undefined ? undefined : `a${lora}`;
      const asked = request(
        jobId,
        Array.from({ length: prompt }, (_, i) => (i * 7) % VOCAB),
        {
          ...{ maxNewTokens, sampling: sampling({ temperature, seed: 5n }) },
          samples: [{ index: 0, credit, emittedIds: [] }],
          ...(id === undefined ? {} : { loraId: id }),
        },
      );
      busy.submit(asked);
      const content = id === undefined ? undefined : loaded.get(id);
      jobs.push({ asked, content, refused: id !== undefined && content === undefined, aborted: false });
    } else if ('steps' in act) {
      await gated.release(act.steps);
    } else if ('abort' in act) {
      const job = jobs[act.abort];
      if (job) job.aborted = engine.abort(job.asked.jobId) || job.aborted;
    } else if ('load' in act) {
      const id = `a${act.load}`;
      const load = engine.lora.load({ id, ...CONTENTS[act.content]! });
      const isTaken = loaded.has(id) || versions.has(id);
      if (isTaken || taken >= SLOTS) {
        await expect(load).rejects.toThrow(isTaken ? /loaded already/ : /all 2 adapter slots are taken/);
        continue;
      }
      const { version } = await load;
      if (version > SLOTS) reached.reused++;
      loaded.set(id, act.content);
      versions.set(id, version);
      taken++;
    } else {
      const id = `a${act.unload}`;
      const unload = engine.lora.unload(id, 60_000);
      if (!loaded.has(id)) {
        await expect(unload).rejects.toThrow(/is not loaded|is leaving/);
        continue;
      }
      loaded.delete(id);
      const gone = unload.then(() => {
        taken--;
        versions.delete(id);
      });
      leaving.push(gone);
      await turn();
      if (versions.has(id)) reached.waited++;
    }
    checkBlocks(engine.scheduler);
    const own = new Set(engine.scheduler.running.map(({ adapter }) => adapter?.version));
    if (own.size > 1) reached.mixed++;
  }
  for (const { asked } of jobs) engine.grant(asked.jobId, 0, 1_000);
  await gated.openForGood();
  await busy.until(() => busy.allEnded());
  await gated.quiet();
  await Promise.all(leaving);
  for (const { asked, content, refused, aborted } of jobs) {
    const { ids, end } = busy.result(asked.jobId);
    if (refused) {
      expect(end).toMatchObject({ type: 'failed', code: 'invalid_argument' });
      expect(end).toHaveProperty('message', `lora_id "${asked.loraId}" names no loaded adapter`);
      reached.refused++;
      continue;
    }
    const whole = await alone(asked, content);
    if (aborted) expect(ids).toEqual(whole.slice(0, ids.length));
    else expect(ids).toEqual(whole);
    if (content !== undefined) reached.adapted++;
    if (end?.type === 'finished') reached.cached += end.cachedTokens;
  }
  reached.retractions += engine.scheduler.retractions;
  checkBlocks(engine.scheduler);
  const { adapters } = engine.load().lora!;
  expect(adapters.map(({ id, sequences }) => [id, sequences]).sort()).toEqual(
    [...loaded.keys()].map((id) => [id, 0]).sort(),
  );
}

describe('adapters', () => {
  it('come and go under random schedules, and each sample has the ids that it has alone', async () => {
    const runs = import.meta.env.SHOAL_LONG === '1' ? 2_000 : 60;
    await fc.assert(fc.asyncProperty(anySchedule, run), { numRuns: runs, endOnFailure: true });
    // The schedules are hard enough: a third of these would be a rare chance.
    expect(reached.adapted).toBeGreaterThan(runs / 6);
    expect(reached.refused).toBeGreaterThan(runs / 3);
    expect(reached.cached).toBeGreaterThan(runs);
    expect(reached.mixed).toBeGreaterThan(runs / 15);
    expect(Math.min(reached.waited, reached.reused, reached.retractions)).toBeGreaterThan(0);
  }, 600_000);

  it('change what is drawn, each in its own way', async () => {
    const asked = request(1n, [1, 2, 3], { maxNewTokens: 12 });
    const all = await Promise.all([undefined, 0, 1, 2].map((content) => alone(asked, content)));
    expect(new Set(all.map((ids) => ids.join())).size).toBe(4);
  });

  const refusal = async (what: Promise<unknown>) =>
    what.then(
      () => undefined,
      ({ code, message }: LoraError) => [code, message],
    );

  it('are refused by name: without slots, of a taken id, of files that are not served', async () => {
    const { busy: none } = await served(8, 0);
    expect(await refusal(none.engine.lora.load({ id: 'x', ...CONTENTS[0]! }))).toEqual([
      ...['unimplemented', 'LoRA adapters are not served here'],
    ]);
    none.submit(request(1n, [1], { loraId: 'x' }));
    expect(none.result(1n).end).toMatchObject({ code: 'unimplemented', message: 'lora_id is not served here' });
    expect(none.engine.load().lora).toBeUndefined();

    const { busy } = await served(8);
    const { lora } = busy.engine;
    const wrong = { ...CONTENTS[0]!, config: '{"peft_type":"LOHA"}' };
    expect(await refusal(lora.load({ id: 'x', ...wrong }))).toEqual([
      ...['invalid_argument', expect.stringMatching(/^adapter "x": adapter_config\.json: peft_type is "LOHA"/)],
    ]);
    expect(await refusal(lora.load({ id: '', ...wrong }))).toEqual(['invalid_argument', 'an adapter needs an id']);
    // The slot of what failed is free again.
    const both = await Promise.all(['x', 'y'].map((id) => lora.load({ id, ...CONTENTS[1]! })));
    expect(both.map(({ rank }) => rank)).toEqual([2, 2]);
    expect(await refusal(lora.load({ id: 'x', ...wrong }))).toEqual([
      'invalid_argument',
      'adapter "x" is loaded already',
    ]);
    expect(await refusal(lora.load({ id: 'z', ...wrong }))).toMatchObject([
      'resource_exhausted',
      /all 2 adapter slots/,
    ]);
    expect(await refusal(lora.unload('z'))).toEqual(['invalid_argument', 'adapter "z" is not loaded']);
  });

  it('stay loaded where sequences use them for too long', async () => {
    const { gated, busy } = await served(24);
    const { lora } = busy.engine;
    await lora.load({ id: 'x', ...CONTENTS[0]! });
    busy.submit(
      request(1n, [1, 2], {
        loraId: 'x',
        maxNewTokens: 2,
        samples: [0, 1].map((index) => ({ index, credit: 9, emittedIds: [] })),
      }),
    );
    expect(await refusal(lora.unload('x', 1))).toEqual(['unavailable', 'adapter "x" is still used by 2 sequences']);
    expect(lora.list()).toMatchObject([{ id: 'x', version: 1, rank: 4, requests: 1, sequences: 2 }]);
    const gone = lora.unload('x', 60_000);
    await gated.openForGood();
    expect(await gone).toMatchObject({ id: 'x', sequences: 0 });
    expect(busy.engine.load().lora).toEqual({ slots: 2, adapters: [] });
    // Nobody can ask for its prefixes any more.
    expect(busy.engine.load().cachedTokens).toBe(0);
  });

  it('keep prefixes of their own, which no news tells: ids alone do not say what they are', async () => {
    const { gated, busy } = await served(24);
    const { engine } = busy;
    await gated.openForGood();
    for (const [i, id] of ['x', 'y'].entries()) await engine.lora.load({ id, ...CONTENTS[i]! });
    engine.beginCacheNews();
    const prompt = Array.from({ length: 40 }, (_, i) => i);
    const cached = async (jobId: bigint, loraId?: string) => {
      const { end } = await busy.serve(request(jobId, prompt, { maxNewTokens: 2, ...(loraId ? { loraId } : {}) }));
      return end?.type === 'finished' ? end.cachedTokens : undefined;
    };
    expect(await cached(1n, 'x')).toBe(0);
    expect([await cached(2n, 'y'), await cached(3n, 'x')]).toEqual([0, 39]);
    expect(engine.takeCacheNews(100)).toEqual([]);
    expect(await cached(4n)).toBe(0);
    expect(engine.takeCacheNews(100)).toMatchObject([{ type: 'stored', parent: undefined, ids: prompt.slice(0, 32) }]);
    await engine.lora.unload('x');
    expect(engine.takeCacheNews(100)).toEqual([]);
    await engine.lora.load({ id: 'x', ...CONTENTS[2]! });
    expect(await cached(5n, 'x')).toBe(0);
  });
});
