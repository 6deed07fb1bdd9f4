/** What kernels of some steps took. */
export interface Profile {
  readonly stages: readonly StageProfile[];
  /** Why there is less than was asked for; '' where there isn't. */
  readonly problem: string;
}

/** prefill: steps with prompt rows; decode: those without. */
export type ProfileStage = 'all' | 'prefill' | 'decode';

export interface StageProfile {
  readonly stage: ProfileStage;
  readonly steps: number;
  /** What was measured with, in words. */
  readonly clock: string;
  /** What takes longest in a step comes first. */
  readonly kernels: readonly ProfiledKernel[];
}

export interface ProfiledKernel {
  readonly kernel: string;
  /** A step, on average. */
  readonly calls: number;
  /** Of one call. */
  readonly ms: number;
  /** Of weights, 10⁹ a second, where known. */
  readonly gbytesPerSecond: number | undefined;
  readonly gflops: number | undefined;
  /** Repeats of the kernel that its time was taken of. */
  readonly repeats: number;
}

export interface ProfileRequest {
  /** To measure; by stage of each. */
  readonly steps: number;
  readonly byStage: boolean;
}
