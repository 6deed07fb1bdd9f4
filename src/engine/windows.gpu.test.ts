import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GpuRunner } from '../model/gpu-runner.ts';
import { loadDecoder } from '../model/load-decoder.ts';
import { MAX_REPEAT } from '../model/step-metadata.ts';
import { generate } from '../model/testing/generate.ts';
import { type GoldenDecoder, goldenDecoder } from '../model/testing/golden-decoder.ts';
import { testDevice } from '../testing/device.ts';
import type { EngineLimits } from './engine-options.ts';
import { checkBlocks } from './testing/check-blocks.ts';
import { GatedRunner, type NarrowLimits } from './testing/gated-runner.ts';
import { LIMITS } from './testing/schedules.ts';
import { letterTokens, request, Served } from './testing/serve.ts';
import { checkWindows } from './testing/watch-windows.ts';

/** Of the golden ids. */
const PROMPT = 20;
/** Kernels of each model take seconds to compile on a software adapter. */
const LONG = import.meta.env.SHOAL_LONG === '1';

// Windows of 16, in every layer or in some.
describe.each(LONG ? ['gemma2', 'gemma3', 'mistral', 'phi3'] : ['gemma2', 'mistral'])('%s in the engine', (name) => {
  let model: GoldenDecoder;
  let runner: GpuRunner;

  beforeAll(async () => {
    model = await goldenDecoder(name);
    runner = await loadDecoder(await testDevice(), model.checkpoint, model.config, {
      ...{ kvBlocks: 24, maxRows: 80, maxSequences: 4 },
    });
  }, 60_000);

  afterAll(() => runner.destroy());

  async function served(limits: Partial<EngineLimits>, narrow: NarrowLimits = {}): Promise<Served> {
    const gated = new GatedRunner(runner, narrow);
    const busy = new Served(gated, letterTokens(model.config.vocabSize), { ...LIMITS, ...limits });
    gated.beforeStep = () => {
      checkBlocks(busy.engine.scheduler);
      checkWindows(busy.engine.scheduler, MAX_REPEAT);
    };
    await gated.openForGood();
    return busy;
  }

  it('gives the golden ids, in chunks, from cached prefixes and in company', async () => {
    const busy = await served({ maxRunning: 4, prefillRows: 7 });
    let jobs = 0n;
    let cached = 0;
    for (const emitted of [0, 5, 13, 21, 3]) {
      const first = jobs + 1n;
      for (const [i, ids] of model.ids.entries()) {
        const prompt = [...ids.subarray(0, PROMPT), ...model.greedy[i]!.subarray(0, emitted)];
        busy.submit(request(++jobs, prompt, { maxNewTokens: model.greedy[i]!.length - emitted }));
      }
      await busy.until(() => busy.allEnded());
      for (const [i, greedy] of model.greedy.entries()) {
        const { ids, end } = busy.result(first + BigInt(i));
        expect(ids).toEqual([...greedy.subarray(emitted)]);
        if (emitted > 0) cached += end?.type === 'finished' ? end.cachedTokens : 0;
      }
    }
    // Blocks that a window has passed are there for a prompt that goes on from them.
    expect(cached).toBeGreaterThan(100);
  });

  it.runIf(LONG)('gives the ids of a sequence alone where blocks are few and others give way', async () => {
    const busy = await served({ maxRunning: 4 }, { blocks: 13, windowBlocks: 8 });
    const prompts = [0, 1, 2, 3].map((own) =>
      Array.from({ length: 50 + own * 9 }, (_, i) => (i < 40 ? (i * 7) % 90 : (i * 11 + own * 5) % 90)),
    );
    prompts.forEach((prompt, i) => {
      busy.submit(request(BigInt(i), prompt, { maxNewTokens: 60 }));
    });
    await busy.until(() => busy.allEnded());
    // Where all layers have windows, there is room for all that are admitted.
    if (name !== 'mistral' && name !== 'phi3') expect(busy.engine.scheduler.retractions).toBeGreaterThan(0);
    for (const [i, prompt] of prompts.entries()) {
      const alone = await generate(runner, prompt, 60);
      expect(busy.result(BigInt(i)).ids).toEqual(alone.map(({ id }) => id));
    }
  });
});
