import { expect, test } from 'vitest';
import { loadDecoder } from '../model/load-decoder.ts';
import { testDevice } from '../testing/device.ts';
import { TINY, TINY_TOKENS } from './testing/any-request.ts';
import { LIMITS, RUNNER_OPTIONS } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

test('an engine whose steps are timed makes the same tokens, and tells what kernels took, stage by stage', async () => {
  const runner = await loadDecoder(await testDevice(), TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  try {
    const serve = async (measure: (served: Served) => void) => {
      const served = new Served(runner, TINY_TOKENS, { ...LIMITS, prefixCache: false });
      measure(served);
      served.submit(request(1n, [5, 6, 7, 8, 9]));
      served.submit(request(2n, [9, 8, 7], { sampling: sampling({ temperature: 1, seed: 3n, presencePenalty: 0.5 }) }));
      await served.until(() => served.allEnded());
      return [1n, 2n].map((jobId) => served.result(jobId).ids);
    };
    const plain = await serve(() => {});
    const answers: Promise<unknown>[] = [];
    const measured = await serve(({ engine }) => {
      answers.push(engine.profile({ steps: 9, byStage: false }));
      // The first one ends with nothing: no step has run.
      answers.push(engine.profile({ steps: 2, byStage: true }));
    });
    expect(measured).toEqual(plain);
    const [first, second] = await Promise.all(answers);
    expect(first).toEqual({ stages: [], problem: 'another profile began' });
    const stages = (second as Awaited<ReturnType<Served['engine']['profile']>>).stages;
    // Two short prompts take one step or two.
    expect(stages.map(({ stage }) => stage)).toEqual(['prefill', 'decode']);
    expect(stages[1]).toMatchObject({ steps: 2 });
    for (const { kernels, clock } of stages) {
      expect(clock).not.toBe('');
      expect(kernels.length).toBeGreaterThan(5);
      for (const { calls, ms } of kernels) expect(Math.min(calls, ms)).toBeGreaterThan(0);
    }
  } finally {
    runner.destroy();
  }
});

test('a profile that is stopped before a step says so; one of a broken engine says why', async () => {
  const runner = await loadDecoder(await testDevice(), TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  const served = new Served(runner, TINY_TOKENS, LIMITS);
  const stopped = served.engine.profile({ steps: 3, byStage: false });
  served.engine.stopProfile();
  expect(await stopped).toEqual({ stages: [], problem: '' });
  runner.destroy();
  const broken = served.engine.profile({ steps: 3, byStage: false });
  expect((await served.serve(request(1n, [3]))).end).toMatchObject({ type: 'failed' });
  expect((await broken).problem).toContain('destroyed');
  expect((await served.engine.profile({ steps: 3, byStage: false })).problem).toContain('destroyed');
});
