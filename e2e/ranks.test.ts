// Two pages, each a data-parallel rank, and an operator who fixed their number.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { metric } from './harness/relay.ts';
import { collect, failureOf, greedyRequest, idsOf } from './harness/scheduler.ts';
import { openServing, type Serving } from './harness/serving.ts';
import { until } from './harness/wait.ts';

let serving: Serving;

beforeAll(async () => {
  serving = await openServing(['--ranks', '2', '--start-wait', '500ms']);
});

afterAll(async () => {
  await serving?.close();
});

const pinned = (dataParallelRank: number, sampling: Parameters<typeof greedyRequest>[1]) =>
  greedyRequest(PROMPT_IDS, sampling, { dataParallelRank });

test('an empty rank waits and fails as no node does, and one beyond them is a mistake', async () => {
  expect((await serving.client.getServerInfo({})).serverArgs).toMatchObject({ dp_size: 2 });
  const beyond = await failureOf(collect(serving.client, pinned(2, { maxNewTokens: 2 })));
  expect(beyond).toMatchObject({ code: 'InvalidArgument', message: expect.stringContaining('data_parallel_rank') });
  const begun = performance.now();
  const { code, at } = await failureOf(collect(serving.client, pinned(1, { maxNewTokens: 2 })));
  expect(code).toBe('Unavailable');
  expect(at - begun).toBeGreaterThan(400);
  const zero = await collect(serving.client, pinned(0, { maxNewTokens: 4 }));
  expect(idsOf(zero)).toEqual(OUTPUT_IDS.slice(0, 4));
});

test('two pages are two ranks: the pinned one serves, a seed makes the same on either, and what one leaves goes on', async () => {
  const second = await serving.browser.serve(serving.relay.webUrl);
  const { loads } = await serving.client.getLoads({});
  expect(loads.map(({ dpRank }) => dpRank).sort()).toEqual([0, 1]);
  for (const rank of [0, 1]) {
    expect(idsOf(await collect(serving.client, pinned(rank, { maxNewTokens: 8 })))).toEqual(OUTPUT_IDS.slice(0, 8));
  }
  const all: number[][] = [];
  for (const rank of [0, 1]) {
    let asked: Promise<number[]> | undefined;
    const sampling = { maxNewTokens: 150, ignoreEos: true, temperature: 1, customParams: { seed: 1 } };
    const generated = await collect(serving.client, pinned(rank, sampling), {
      onChunk: () => {
        asked ??= serving.client.getLoads({}).then(({ loads }) => loads.map(({ numRunningReqs }) => numRunningReqs));
      },
    });
    expect(await asked).toEqual(rank === 0 ? [1, 0] : [0, 1]);
    all.push(idsOf(generated));
  }
  expect(all[0]).toHaveLength(150);
  expect(all[1]).toEqual(all[0]);

  // With penalties, and stops that may not come yet: what was made counts at the other page too.
  const sampling = {
    ...{ maxNewTokens: 480, minNewTokens: 470, frequencyPenalty: 0.3, repetitionPenalty: 1.1, temperature: 1 },
    // Seconds of work: a click may take one.
    ...{ customParams: { seed: 2 }, n: 6 },
  };
  const calm = await collect(serving.client, pinned(0, sampling));
  let left: Promise<void> | undefined;
  const moved = await collect(serving.client, greedyRequest(PROMPT_IDS, sampling), {
    onChunk: () => {
      left ??= (async () => {
        const { loads } = await serving.client.getLoads({});
        const page = (loads[0]?.numRunningReqs ?? 0) > 0 ? serving.page : second;
        await page.getByRole('button', { name: /leave/i }).dispatchEvent('click');
      })();
    },
  });
  await left;
  expect(calm.completes).toHaveLength(6);
  for (const [index, complete] of calm.completes.entries()) {
    expect(idsOf(moved, index)).toEqual(idsOf(calm, index));
    expect(moved.completes[index]?.finishReason).toBe(complete.finishReason);
  }
  expect(await metric(serving.relay.webUrl, 'shoal:failovers_total')).toBe(1);
  await until('the page has gone', 5_000, async () => (await serving.client.getLoads({})).loads.length === 1);
});

test('the pages have written no error to their consoles', () => {
  expect(serving.browser.errors).toEqual([]);
});
