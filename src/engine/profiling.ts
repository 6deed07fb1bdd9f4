import { clockInWords } from '../gpu/gpu-clock.ts';
import type { Runner, StepBatch } from '../model/runner.ts';
import type { KernelProfile, StepProfile } from '../model/step-profile.ts';
import type { Profile, ProfiledKernel, ProfileRequest, ProfileStage, StageProfile } from './profile.ts';
import { settledWithin } from './settled-within.ts';

/** What timing one step's kernels may take: streams stand still meanwhile. */
const MOST_STEP_MS = 20_000;
/** What the kernel that was begun last may take of it beyond that. */
const HANGING_MS = 60_000;

/** Of some steps, all together. */
interface KernelSums {
  calls: number;
  ms: number;
  bytes: number | undefined;
  flops: number | undefined;
  repeats: number;
}

interface StageSums {
  steps: number;
  clock: string;
  readonly kernels: Map<string, KernelSums>;
}

interface Asked extends ProfileRequest {
  readonly stages: Map<ProfileStage, StageSums>;
  readonly leftOut: Set<string>;
  readonly answer: (profile: Profile) => void;
}

/** Has a runner time the kernels of steps before these run, for as many as somebody asked for. */
export class Profiling {
  readonly #runner: Runner;
  #asked: Asked | undefined;

  constructor(runner: Runner) {
    this.#runner = runner;
  }

  /** Steps are to be measured, one at a time with nothing in flight. */
  get active(): boolean {
    return this.#asked !== undefined;
  }

  /** Measures the next steps. One that is under way ends with what there is. */
  start(request: ProfileRequest): Promise<Profile> {
    this.stop('another profile began');
    if (!this.#runner.profile) return Promise.resolve({ stages: [], problem: 'there are no kernels to time here' });
    return new Promise((answer) => {
      this.#asked = { ...request, stages: new Map(), leftOut: new Set(), answer };
    });
  }

  /** Ends with what there is. Harmless where there is none. */
  stop(why = ''): void {
    const asked = this.#asked;
    if (!asked) return;
    this.#asked = undefined;
    const { stages, leftOut, answer } = asked;
    const late = leftOut.size > 0 ? `no time was left for ${[...leftOut].join('; ')}` : '';
    answer({
      stages: [...stages].map(([stage, sums]) => stageProfile(stage, sums)),
      problem: [why, late].filter(Boolean).join('; '),
    });
  }

  /**
   * Times the kernels of the step that runs next, where it is asked for. A profile that fails says so; only where it never
   * ends, and no step could follow, this rejects.
   */
  async measure(batch: StepBatch, prefillRows: number): Promise<void> {
    const asked = this.#asked;
    if (!asked) return;
    const stage = asked.byStage ? (prefillRows > 0 ? 'prefill' : 'decode') : 'all';
    const sums = asked.stages.get(stage) ?? { steps: 0, clock: '', kernels: new Map() };
    if (sums.steps >= asked.steps) return;
    const late = `timing kernels took over ${(MOST_STEP_MS + HANGING_MS) / 1000} s: the GPU hangs`;
    let ended = false;
    const timing = this.#runner.profile!(batch, { mostMs: MOST_STEP_MS }).finally(() => {
      ended = true;
    });
    try {
      const profile = await settledWithin(MOST_STEP_MS + HANGING_MS, timing, late);
      // Whoever ended it meanwhile has been answered.
      if (this.#asked !== asked) return;
      add(sums, profile);
      asked.stages.set(stage, sums);
      for (const kernel of profile.leftOut) asked.leftOut.add(kernel);
      const stages = asked.byStage ? 2 : 1;
      const whole = [...asked.stages.values()].filter(({ steps }) => steps >= asked.steps);
      if (whole.length === stages) this.stop();
    } catch (error) {
      if (this.#asked === asked) this.stop(error instanceof Error ? error.message : String(error));
      if (!ended) throw error;
    }
  }
}

function add(sums: StageSums, { kernels, clock }: StepProfile): void {
  sums.steps++;
  sums.clock = clockInWords(clock);
  for (const kernel of kernels) {
    const before = sums.kernels.get(kernel.kernel);
    sums.kernels.set(kernel.kernel, before ? together(before, sumsOf(kernel)) : sumsOf(kernel));
  }
}

function sumsOf({ calls, ms, bytes, flops, repeats }: KernelProfile): KernelSums {
  const ofCalls = (one: number | undefined) => (one === undefined ? undefined : calls * one);
  return { calls, ms: calls * ms, bytes: ofCalls(bytes), flops: ofCalls(flops), repeats };
}

function together(a: KernelSums, b: KernelSums): KernelSums {
  const sum = (one: number | undefined, other: number | undefined) =>
    one === undefined || other === undefined ? undefined : one + other;
  return {
    calls: a.calls + b.calls,
    ms: a.ms + b.ms,
    bytes: sum(a.bytes, b.bytes),
    flops: sum(a.flops, b.flops),
    repeats: Math.max(a.repeats, b.repeats),
  };
}

function stageProfile(stage: ProfileStage, { steps, clock, kernels }: StageSums): StageProfile {
  const sorted = [...kernels].sort(([, a], [, b]) => b.ms - a.ms);
  return {
    stage,
    steps,
    clock,
    kernels: sorted.map(([kernel, { calls, ms, bytes, flops, repeats }]): ProfiledKernel => {
      const rate = (amount: number | undefined) => (amount === undefined || ms === 0 ? undefined : amount / ms / 1e6);
      return {
        ...{ kernel, calls: calls / steps, ms: ms / calls, repeats },
        ...{ gbytesPerSecond: rate(bytes), gflops: rate(flops) },
      };
    }),
  };
}
