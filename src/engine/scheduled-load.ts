import { BLOCK_TOKENS, type Runner } from '../model/runner.ts';
import type { Scheduler } from './scheduler.ts';

/** Of an engine's load: whom the scheduler has, what these hold, and the runner's bytes. */
export function scheduledLoad(scheduler: Scheduler, runner: Runner) {
  const { running, waiting, kv, usedTokens, maxTokens, hits, limits } = scheduler;
  return {
    running: running.length,
    waiting: waiting.size,
    retracted: [...waiting].filter((sequence) => sequence.residency > 0).length,
    usedTokens,
    maxTokens,
    cachedTokens: kv.cachedBlocks * BLOCK_TOKENS,
    cacheHitRate: hits.rate,
    maxRunning: limits.maxRunning,
    weightBytes: runner.weightBytes,
    kvBytes: runner.kvBytes,
    gpuBytes: runner.allocatedBytes,
  };
}
