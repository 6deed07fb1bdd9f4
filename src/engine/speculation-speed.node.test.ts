import { describe, expect, test } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import type { EngineOptions } from './engine-options.ts';
import { letterTokens, request, Served } from './testing/serve.ts';
import { type AdapterTimes, type NextId, TimedRunner } from './testing/timed-runner.node.ts';

const LONG = process.env.SHOAL_LONG === '1';
const ADAPTERS: Record<string, AdapterTimes> = {
  'bound by memory': { encode: 0.5, step: 10, row: 0.1, readback: 1 },
  'bound by computing': { encode: 0.5, step: 0.5, row: 4, readback: 1 },
  'that pays for dispatches': { encode: 6, step: 3, row: 0.2, readback: 2 },
  'that reads back slowly': { encode: 0.3, step: 2, row: 0.1, readback: 30 },
  'that is held up now and then': { encode: 0.5, step: 10, row: 0.1, readback: 1, pause: { every: 1_500, ms: 60 } },
};
const BATCHES = LONG ? [1, 2, 3, 4, 8, 12, 16] : [1, 8];
const SEEDS = LONG ? [1, 2, 3, 4, 5] : [1];
const OUTPUT = 192;
const WAVES = LONG ? 12 : 6;

interface Output {
  /** Ids of the round that the prompt has once and the output keeps to. */
  readonly round: number;
  /** Chance that it does. */
  readonly kept: number;
}

const OUTPUTS: Record<string, Output> = {
  copies: { round: 96, kept: 1 },
  'copies with some errors': { round: 96, kept: 0.95 },
  'repeats that mislead': { round: 12, kept: 0.3 },
  'what never repeats': { round: 0, kept: 0 },
};

/** Pseudo-random in [0, 1), of whatever is given. */
function chance(...of: readonly number[]): number {
  let hash = 0x811c9dc5;
  for (const one of of) {
    hash = Math.imul(hash ^ one, 0x01000193);
    hash ^= hash >>> 15;
    hash = Math.imul(hash, 0x2c1b3c6d);
    hash ^= hash >>> 13;
  }
  return (hash >>> 0) / 2 ** 32;
}

function nextId({ round, kept }: Output, seed: number): NextId {
  return (slot, position, id) => {
    if (chance(seed, slot, position, 1) < kept) return (id + 1) % round;
    return Math.floor(chance(seed, slot, position, 2) * (round || 4_096));
  };
}

/** Milliseconds that waves of `batch` requests take; `mixed`: all but the first of each never repeat. */
async function took(
  adapter: AdapterTimes,
  output: Output,
  batch: number,
  seed: number,
  speculation: EngineOptions['speculation'],
  mixed: boolean,
) {
  const random = new Random(seed);
  const [first, others] = [nextId(output, seed), nextId(mixed ? OUTPUTS['what never repeats']! : output, seed)];
  const runner = new TimedRunner(
    adapter,
    (slot, position, id) => (slot === 0 ? first : others)(slot, position, id),
    () => 1 + 0.2 * (random.uniform() - 0.5),
  );
  const limits = {
    maxRunning: 16,
    maxWaiting: 64,
    prefillRows: 192,
    stepsInFlight: 2,
    policy: 'fcfs',
    prefixCache: false,
  } as const;
  const now = () => runner.now;
  const served = new Served(runner, letterTokens(1), limits, { now, ...(speculation ? { speculation } : {}) });
  for (let wave = 0; wave < WAVES; wave++) {
    for (let i = 0; i < batch; i++) {
      const { round } = mixed && i > 0 ? OUTPUTS['what never repeats']! : output;
      const prompt = Array.from({ length: Math.max(round, 8) }, (_, at) =>
        round ? (at + i) % round : 1_000 + at * 7 + i,
      );
      served.submit(request(BigInt(wave * batch + i), prompt, { maxNewTokens: OUTPUT }));
    }
    await served.until(() => served.allEnded());
  }
  expect(runner.repeatedSteps).toBeGreaterThan(0);
  return runner.now;
}

describe.each(Object.entries(ADAPTERS))('on an adapter %s', (_, adapter) => {
  test.each(Object.keys(OUTPUTS))(
    'drafts cost next to nothing, or win: %s',
    async (which) => {
      const slow: unknown[] = [];
      for (const batch of BATCHES) {
        for (const mixed of batch === 1 ? [false] : [false, true]) {
          for (const seed of SEEDS) {
            const one = OUTPUTS[which]!;
            const without = await took(adapter, one, batch, seed, 'off', mixed);
            const drafted = await took(adapter, one, batch, seed, 'auto', mixed);
            const speed = without / drafted;
            const least = adapter.step >= 100 * adapter.row && which === 'copies' && !mixed ? 1.5 : 0.95;
            if (speed < least) slow.push({ batch, mixed, seed, speed });
          }
        }
      }
      expect(slow).toEqual([]);
    },
    600_000,
  );
});
