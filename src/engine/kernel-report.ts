/**
 * auto: kernels are tried and timed at the first start on an adapter, and what was found is kept. reset: as if it were the
 * first start. off: nothing is tried, and the defaults are taken.
 */
export type TuneMode = 'auto' | 'off' | 'reset';

export const TUNE_MODES: readonly TuneMode[] = ['auto', 'off', 'reset'];

/** See Precision of src/gpu/kernel-choices.ts. */
export const PRECISIONS = ['exact', 'fast'] as const;

/** auto: sequences draft where that wins by what was measured. off: none does. */
export const SPECULATION_MODES = ['auto', 'off'] as const;

/** What a user says of a node's kernels. */
export interface KernelFlags {
  /** Whether sequences draft; default: auto. */
  readonly speculation?: (typeof SPECULATION_MODES)[number];
  readonly tune: TuneMode;
  readonly precision: (typeof PRECISIONS)[number];
  /** A path or variant that all products are to be made of that can be; for looking for faults. */
  readonly kernel?: string | undefined;
}

/** What became of an engine's kernels, for its user. */
export interface KernelReport {
  /** off: nothing was tried. kept: at an earlier start. tested: at this one. */
  readonly from: 'off' | 'kept' | 'tested';
  readonly precision: KernelFlags['precision'];
  /** Variants that passed. */
  readonly passed: number;
  /** Those that weren't tried for want of time: they aren't used either, and are tried at a later start. */
  readonly untested: number;
  /** Those that aren't used. */
  readonly failed: readonly { readonly name: string; readonly why: string }[];
}
