import type { RecordedDispatch } from '../gpu/dispatch-recorder.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { GpuClock } from '../gpu/gpu-clock.ts';
import { workOf } from '../gpu/kernel-work.ts';
import { callsByKernel, timeKernel } from '../gpu/profiler.ts';
import type { SlotBuffers } from './slot-buffers.ts';
import type { EncodedStep } from './step-metadata.ts';
import type { KernelProfile, ProfileOptions, StepProfile } from './step-profile.ts';

export interface ProfiledParts {
  readonly gpu: Gpu;
  readonly slots: SlotBuffers;
  /** Logits rows of a tile. */
  readonly tileRows: number;
}

/**
 * Times the kernels of a step, each in passes of its own. Repeats leave buffers changed that the step's own submit
 * writes anew, and slots' state, which is put back from a copy: see GpuRunner.profile.
 * `write` makes the step's metadata what they were.
 */
export async function profileStep(
  { gpu, slots, tileRows }: ProfiledParts,
  step: EncodedStep,
  dispatches: readonly RecordedDispatch[],
  write: () => void,
  { leastMs, samples, mostMs = Number.POSITIVE_INFINITY, clock: source }: ProfileOptions,
): Promise<StepProfile> {
  const startedAt = performance.now();
  const saved = await slots.save(gpu);
  try {
    const clock = await GpuClock.create(gpu, source);
    try {
      const kernels: KernelProfile[] = [];
      const leftOut: string[] = [];
      for (const { kernel, dispatches: calls } of callsByKernel(dispatches)) {
        if (performance.now() - startedAt > mostMs) {
          leftOut.push(kernel);
          continue;
        }
        const timing = await timeKernel(clock, calls, write, leastMs, samples);
        kernels.push({ kernel, calls: calls.length, ...timing, ...workOfCalls(calls, step, tileRows) });
      }
      return { kernels, leftOut, clock: clock.facts };
    } finally {
      clock.destroy();
    }
  } finally {
    saved.restore();
  }
}

/** Of one of `calls`, on average. */
function workOfCalls(calls: readonly RecordedDispatch[], step: EncodedStep, tileRows: number) {
  let [bytes, flops] = [0, 0];
  for (const { group } of calls) {
    const work = workOf(group);
    if (!work) return {};
    const { logits, rows } = step;
    const columns = work.columns === 'rows' ? rows : Math.min(tileRows, logits.length - work.firstColumn);
    bytes += work.bytes / calls.length;
    flops += (work.flops * columns) / calls.length;
  }
  return { bytes, flops };
}
