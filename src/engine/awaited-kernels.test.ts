import { expect, it } from 'vitest';
import type { SearchedRow } from '../gpu/sampler.ts';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { Runner } from '../model/runner.ts';
import { TINY, TINY_TOKENS } from './testing/any-request.ts';
import { turn } from './testing/gated-runner.ts';
import { LIMITS, RUNNER_OPTIONS } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

/** Draws of more than 64 tokens wait until `compiled` is called. */
async function serve() {
  let due: Promise<void> | undefined;
  let compiled: () => void = () => {};
  due = new Promise((resolve) => {
    compiled = () => {
      due = undefined;
      resolve();
    };
  });
  const runner: Runner = await CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  runner.awaits = ({ sampled, topK, top }: SearchedRow) => ((sampled && topK > 64) || top > 64 ? due : undefined);
  return { served: new Served(runner, TINY_TOKENS, LIMITS), compiled: () => compiled() };
}

const many = (jobId: bigint) =>
  request(jobId, [1, 2, 3], { maxNewTokens: 8, sampling: { ...sampling(), temperature: 1, topK: 65, seed: 5n } });

it('a request waits for the kernels of its draws, others run, and it is drawn as if they had been there', async () => {
  const { served, compiled } = await serve();
  served.submit(many(1n));
  const other = await served.serve(request(2n, [1, 2, 3], { maxNewTokens: 30 }));
  expect(other.end).toMatchObject({ reason: 'length' });
  expect(served.result(1n)).toMatchObject({ ids: [], end: undefined });
  expect(served.engine.load()).toMatchObject({ running: 0, waiting: 1 });
  compiled();
  await served.until(() => served.allEnded());
  expect(served.result(1n).ids).toHaveLength(8);
  expect((await served.serve(many(3n))).ids).toEqual(served.result(1n).ids);
});

it('one that is aborted meanwhile ends, and is no more there when they are', async () => {
  const { served, compiled } = await serve();
  served.submit(many(1n));
  expect(served.engine.abort(1n)).toBe(true);
  expect(served.result(1n).end).toMatchObject({ reason: 'abort' });
  compiled();
  await turn();
  expect(served.engine.idle).toBe(true);
  expect(served.result(1n).ids).toEqual([]);
});

it('a prompt is being computed from its start until its first token', async () => {
  const { served } = await serve();
  expect(served.engine.prefilling).toBe(false);
  served.submit(request(1n, [1, 2, 3], { maxNewTokens: 4 }));
  expect(served.engine.prefilling).toBe(true);
  await served.until(() => served.result(1n).ids.length > 0);
  expect(served.engine.prefilling).toBe(false);
  await served.until(() => served.allEnded());
  expect(served.engine.prefilling).toBe(false);
});
