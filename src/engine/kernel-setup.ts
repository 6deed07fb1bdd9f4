import type { KernelFlags } from './kernel-report.ts';
import type { TunerStore } from './tuner-store.ts';

/** How the kernels of an engine are chosen. */
export interface KernelSetup extends KernelFlags {
  /** Where what was found is kept; absent: nowhere. */
  readonly store?: TunerStore | undefined;
  /** Of the program, beside the shaders: another may choose otherwise. */
  readonly version: string;
  /** How long self-test and tuner may take, but after a lost device; default: ten seconds. */
  readonly totalMs?: number | undefined;
  /** Kernels tried, of how many. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}
