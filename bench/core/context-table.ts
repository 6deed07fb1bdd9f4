import { BLOCK_TOKENS, type StepBatch } from '../../src/model/runner.ts';
import { contexts, difference, neighbourBar } from './neighbours.ts';
import { type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median } from './stats.ts';

/** Decode steps for one readback, as the engine has them: a browser tells of a readback once a millisecond only. */
const MOST_STEPS = 8;
/** The engine's bound on a burst. */
const MOST_BURST_MS = 60;

/**
 * Time of one token by context, one decode row through the whole model; no cliff between neighbours. The KV before it
 * is what the pool happens to hold: its numbers cost the same.
 */
export async function contextTable(setting: Setting): Promise<BenchTable> {
  const { runner, work, request } = setting;
  const lengths = contexts(runner.limits.contextLength);
  const times = new Map<number, number[]>(lengths.map((length) => [length, []]));
  const rounds = request.quick ? 3 : 9;
  let single = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) {
    const startedAt = performance.now();
    await runner.step(decode(lengths[0]!, 1));
    single = Math.min(single, performance.now() - startedAt);
  }
  const steps = Math.max(1, Math.min(MOST_STEPS, Math.floor(MOST_BURST_MS / single)));
  // Round after round, so that whoever disturbs this machine disturbs all lengths alike.
  for (let round = 0; round < rounds; round++) {
    for (const length of lengths) {
      const startedAt = performance.now();
      await runner.step(decode(length, steps));
      times.get(length)!.push((performance.now() - startedAt) / steps);
    }
  }
  const medians = lengths.map((length) => median(times.get(length)!));
  const bests = lengths.map((length) => Math.min(...times.get(length)!));
  return {
    name: 'context',
    title: `Time of a token by context, batch 1, whole model (runner, ${steps} steps a readback, median of ${rounds})`,
    columns: ['context', 'ms', 'to neighbour', 'of roofline'],
    rows: lengths.map((length, i) => {
      const ms = medians[i]!;
      const apart = i === 0 ? undefined : difference(medians[i - 1]!, ms);
      const bestApart = i === 0 ? undefined : difference(bests[i - 1]!, bests[i]!);
      const share = work.share({ rows: 1, logitsRows: 1, keys: length, steps: 1 }, ms);
      return {
        cells: [String(length), fixed(ms), apart === undefined ? '–' : percent(apart), percent(share)],
        ...neighbourBar(apart, bestApart),
        data: { context: length, ms, best: bests[i], apart, bestApart, share },
      };
    }),
  };
}

/** Greedy decode steps of one row; the last of them sees `length` keys, itself included. */
function decode(length: number, repeat: number): StepBatch {
  const blockTable = Array.from({ length: Math.ceil(length / BLOCK_TOKENS) }, (_, i) => i);
  const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0 };
  return {
    sequences: [{ slot: 0, tokens: [5], startPosition: length - repeat, blockTable }],
    logits: [{ row: 0, slot: 0, sampling, outputPosition: 0, logprob: false, topLogprobs: 0 }],
    repeat,
  };
}
