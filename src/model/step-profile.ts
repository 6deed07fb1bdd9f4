import type { ClockFacts } from '../gpu/gpu-clock.ts';

/** What a kernel took in a step. */
export interface KernelProfile {
  /** The kernel, and the shape it works on where several are told apart. */
  readonly kernel: string;
  /** Dispatches in the step. */
  readonly calls: number;
  /** Of one dispatch, in milliseconds. */
  readonly ms: number;
  /** Dispatches in the span that `ms` was taken of. */
  readonly repeats: number;
  /** Of one dispatch, where known: bytes of weights read, and floating-point operations. */
  readonly bytes?: number;
  readonly flops?: number;
}

/** One step, kernel by kernel; of a repeated step one repetition. */
export interface StepProfile {
  /** In order of first use. */
  readonly kernels: readonly KernelProfile[];
  /** Kernels that time was left for none of. */
  readonly leftOut: readonly string[];
  readonly clock: ClockFacts;
}

export interface ProfileOptions {
  /** A span is at least so long; default: what the clock asks for. */
  readonly leastMs?: number;
  /** Spans of each length, of which the shortest counts; default: 1. */
  readonly samples?: number;
  /** No kernel is begun later than this, in milliseconds; default: never too late. */
  readonly mostMs?: number;
  /** wall: the host's clock, whatever the device offers. */
  readonly clock?: 'timestamps' | 'wall';
}
