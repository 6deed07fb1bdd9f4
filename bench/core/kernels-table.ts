import { clockInWords } from '../../src/gpu/gpu-clock.ts';
import { BLOCK_TOKENS, type StepBatch } from '../../src/model/runner.ts';
import type { StepProfile } from '../../src/model/step-profile.ts';
import { randomPrompt } from './generation-times.ts';
import { type BenchTable, fixed, percent, type Roofline } from './report.ts';
import type { ModelSetting } from './run-model.ts';

/** A span is at least so long, and the shortest of so many. */
const LEAST_MS = 20;
const SAMPLES = 3;

export interface DecodeProfile {
  readonly step: StepProfile;
  readonly dispatches: number;
  /** All kernels of the step, one after another. */
  readonly kernelsMs: number;
}

/** The kernels of a greedy decode step of `batch` rows, each behind `promptTokens`, which may hold anything. */
export async function profileDecode(
  { runner, random }: ModelSetting,
  batch: number,
  promptTokens: number,
): Promise<DecodeProfile> {
  const { vocabSize } = runner.limits;
  const blocks = Math.ceil((promptTokens + 1) / BLOCK_TOKENS);
  const rows = Array.from({ length: batch }, (_, i) => i);
  const step: StepBatch = {
    sequences: rows.map((slot) => ({
      slot,
      tokens: randomPrompt(random, vocabSize, 1),
      startPosition: promptTokens,
      blockTable: Array.from({ length: blocks }, (_, i) => slot * blocks + i),
    })),
    logits: rows.map((row) => ({
      row,
      slot: row,
      sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, sampleIndex: 0 },
      outputPosition: 0,
      logprob: false,
      topLogprobs: 0,
    })),
  };
  const profile = await runner.profile(step, { leastMs: LEAST_MS, samples: SAMPLES });
  return {
    step: profile,
    dispatches: profile.kernels.reduce((sum, { calls }) => sum + calls, 0),
    kernelsMs: profile.kernels.reduce((sum, { calls, ms }) => sum + calls * ms, 0),
  };
}

export function kernelsTable(
  batch: number,
  { kernels, clock }: StepProfile,
  { copyGBs, gflops }: Roofline,
): BenchTable {
  const total = kernels.reduce((sum, { calls, ms }) => sum + calls * ms, 0);
  const sorted = [...kernels].sort((a, b) => b.calls * b.ms - a.calls * a.ms);
  return {
    name: 'kernels',
    title: `Kernels of a decode step, batch ${batch} (each alone, repeated for ${LEAST_MS} ms at least; ${clockInWords(clock)})`,
    columns: [
      'kernel',
      'calls',
      'ms a call',
      'ms a step',
      'share',
      'GB/s',
      'of copy',
      'GFLOP/s',
      'of mul-add',
      'repeats',
    ],
    rows: sorted.map(({ kernel, calls, ms, repeats, bytes, flops }) => {
      const [gbs, rate] = [bytes && bytes / ms / 1e6, flops && flops / ms / 1e6];
      return {
        cells: [
          ...[kernel, String(calls), fixed(ms, 3), fixed(calls * ms), percent((calls * ms) / total)],
          ...[fixed(gbs), gbs ? percent(gbs / copyGBs) : '–', fixed(rate, 1), rate ? percent(rate / gflops) : '–'],
          String(repeats),
        ],
        holds: undefined,
        bar: '',
        data: { calls, ms, repeats, gbs, gflops: rate },
      };
    }),
  };
}
