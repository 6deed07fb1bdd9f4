import type { Precision } from '../gpu/kernel-choices.ts';
import type { TunerStore } from '../gpu/tuner-store.ts';

/**
 * auto: kernels are tried and timed at the first start on an adapter, and what was found is kept. reset: as if it were the
 * first start. off: nothing is tried, and the defaults are taken.
 */
export type TuneMode = 'auto' | 'off' | 'reset';

export const TUNE_MODES: readonly TuneMode[] = ['auto', 'off', 'reset'];
export const PRECISIONS: readonly Precision[] = ['exact', 'fast'];

/** How the kernels of an engine are chosen. */
export interface KernelSetup {
  readonly tune: TuneMode;
  readonly precision: Precision;
  /** A path or variant that all products are to be made of that can be; for looking for faults. */
  readonly kernel?: string | undefined;
  /** Where what was found is kept; absent: nowhere. */
  readonly store?: TunerStore | undefined;
  /** Of the program, beside the shaders: another may choose otherwise. */
  readonly version: string;
  /** Kernels tried, of how many. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What became of an engine's kernels, for its user. */
export interface KernelReport {
  /** off: nothing was tried. kept: at an earlier start. tested: at this one. */
  readonly from: 'off' | 'kept' | 'tested';
  readonly precision: Precision;
  /** Variants that passed. */
  readonly passed: number;
  /** Those that aren't used. */
  readonly failed: readonly { readonly name: string; readonly why: string }[];
}
