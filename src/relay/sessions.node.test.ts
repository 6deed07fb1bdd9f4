import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, idsOf, PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { nextOf, outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const start = benchPerTest();

test('a stream that drops inside the lease resumes: nothing restarts, nothing comes twice', async () => {
  const on = await start();
  const node = await on.node({ stepMs: 2 });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 200 })), 20_000);
  for (let cut = 0; cut < 5; cut++) {
    await node.until(() => node.outputLength(node.jobs[0]?.jobId ?? 0n) >= 20 + cut * 30);
    await node.reconnect();
  }
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 200));
  expect(node.jobs).toHaveLength(1);
});

test('lost and doubled reports, cut streams: every token once and in order', async () => {
  const on = await start();
  const fates = ['arrives', 'request lost', 'response lost', 'comes twice'] as const;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...fates), { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 3 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 3 }),
      async (losses, cuts, tokensPerStep, n) => {
        // One report in each round comes through whole: nothing but loss would be a dead network.
        const script = [...losses, 'arrives' as const];
        let turn = 0;
        const node = await on.node({
          tokensPerStep,
          fate: () => script[turn++ % script.length] as (typeof fates)[number],
        });
        const request = requestOf(PROMPT, { maxNewTokens: 50, n });
        const whole = collect(on.client.stream(generate, request), 20_000);
        for (const cut of cuts.sort((a, b) => a - b)) {
          await node.until(() => node.outputLength(node.jobs[0]?.jobId ?? 0n) >= cut);
          await node.reconnect();
        }
        const { messages, error } = await whole;
        expect(error).toBeUndefined();
        for (let index = 0; index < n; index++) expect(idsOf(messages, index)).toEqual(outputOf(PROMPT, 50, index));
        expect(node.reportError).toBeUndefined();
        await node.detach();
      },
    ),
    { numRuns: 12, endOnFailure: true },
  );
}, 60_000);

test('a slow reader parks its own sample, and no other', async () => {
  const on = await start();
  const node = await on.node({ tokensPerStep: 8, contextLength: 100_000, poolTokens: 200_000 });
  const slow = on
    .newClient({ 'grpc-node.flow_control_window': 1024 })
    .stream(generate, requestOf(PROMPT, { maxNewTokens: 500 }, { returnLogprob: true, topLogprobsNum: 500 }));
  await new Promise((resolve) => slow.once('data', resolve));
  slow.pause();
  const job = () => node.jobs[0]?.jobId ?? 0n;
  // Parked: with nobody reading, the node stops short of the end, a credit past what went into the pipe.
  await node.until(() => node.outputLength(job()) >= 64);
  const { messages } = await collect(on.client.stream(generate, requestOf([1, 2], { maxNewTokens: 300 })));
  expect(idsOf(messages)).toEqual(outputOf([1, 2], 300));
  expect(node.outputLength(job())).toBeLessThan(500);
  const rest = collect(slow, 20_000);
  slow.resume();
  expect((await rest).messages.at(-1)?.response.case).toBe('complete');
  expect(node.outputLength(job())).toBe(500);
});

test('a seed is the client’s, or one drawn for the request', async () => {
  const on = await start();
  const node = await on.node();
  const ask = (customParams: { seed: number } | undefined) =>
    collect(
      on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 1, ...(customParams ? { customParams } : {}) })),
    );
  await ask({ seed: 42 });
  await ask(undefined);
  await ask(undefined);
  const seeds = node.jobs.map((job) => job.sampling?.seed);
  expect(seeds[0]).toBe(42n);
  expect(seeds[1]).not.toBe(seeds[2]);
  expect(nextOf(PROMPT, 0)).not.toBe(nextOf(PROMPT, 1));
});
