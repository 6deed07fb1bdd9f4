import { type RecordedDispatch, replay } from './dispatch-recorder.ts';
import type { GpuClock } from './gpu-clock.ts';
import { workOf } from './kernel-work.ts';

const MOST_REPEATS = 1 << 16;
/** A span this much longer than asked for is measured once: what a pass costs by itself is nothing beside it. */
const LONG_SPANS = 5;

/** Dispatches of one kernel on one kind of operands. */
export interface KernelCalls {
  /** The kernel, and what it works on where several are told apart. */
  readonly kernel: string;
  readonly dispatches: readonly RecordedDispatch[];
}

export interface KernelTiming {
  /** Milliseconds of a dispatch. */
  readonly ms: number;
  /** Dispatches in the span that was measured. */
  readonly repeats: number;
}

/** Dispatches by kernel, in order of first use. */
export function callsByKernel(dispatches: readonly RecordedDispatch[]): KernelCalls[] {
  const byKernel = new Map<string, RecordedDispatch[]>();
  for (const dispatch of dispatches) {
    const { pipeline, group } = dispatch;
    const kernel = [kernelName(pipeline.label), workOf(group)?.what].filter(Boolean).join(', ');
    const calls = byKernel.get(kernel);
    if (calls) calls.push(dispatch);
    else byKernel.set(kernel, [dispatch]);
  }
  return [...byKernel].map(([kernel, calls]) => ({ kernel, dispatches: calls }));
}

/**
 * Milliseconds of one of `dispatches`, on average: a pass of its own, in which they run one after another and again from
 * the first, so that each finds caches as its step would leave them. It is (t(2r) − t(r)) ÷ r of r dispatches, t(r) being
 * `leastMs` at least: what a pass costs by itself cancels out; each the shortest of `samples`, since whoever disturbs only
 * lengthens. `before` puts back what a repeat must find, before each pass.
 */
export async function timeKernel(
  clock: GpuClock,
  dispatches: readonly RecordedDispatch[],
  before: () => void,
  leastMs = clock.leastMs,
  samples = 1,
): Promise<KernelTiming> {
  const span = (count: number) => {
    before();
    return clock.spanMs((pass) => replay(pass, dispatches, count));
  };
  const shortest = async (count: number, known = Number.POSITIVE_INFINITY) => {
    let ms = known;
    for (let i = known === Number.POSITIVE_INFINITY ? 0 : 1; i < samples; i++) ms = Math.min(ms, await span(count));
    return ms;
  };
  let repeats = 1;
  let ms = await span(repeats);
  while (ms < leastMs && repeats < MOST_REPEATS) {
    repeats = Math.max(repeats + 1, Math.ceil(repeats * Math.min(16, (1.3 * leastMs) / Math.max(ms, 0.02))));
    ms = await span(repeats);
  }
  ms = await shortest(repeats, ms);
  if (ms >= LONG_SPANS * leastMs) return { ms: ms / repeats, repeats };
  const twice = await shortest(2 * repeats);
  // A span in which somebody else had the processor may come out shorter than its half.
  return { ms: twice > ms ? (twice - ms) / repeats : twice / (2 * repeats), repeats };
}

/** A pipeline's label without the constants it is made for. */
function kernelName(label: string): string {
  return label.replace(/ [A-Z_0-9]+=\d+/g, '');
}
