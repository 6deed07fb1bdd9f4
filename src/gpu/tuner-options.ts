import type { ForcedKernel } from './choice-name.ts';
import type { Precision } from './kernel-choices.ts';
import type { KernelOffers } from './kernel-offers.ts';
import type { TunerRecord } from './tuner-record.ts';

export interface TunerOptions {
  readonly precision: Precision;
  /** What was found before. */
  readonly known?: Pick<TunerRecord, 'choices' | 'results'> | undefined;
  /** Of which all products are to be made that can be. */
  readonly forced?: ForcedKernel | undefined;
  /** One kernel at a time, so that a lost device tells whose fault it is. */
  readonly careful?: boolean;
  /** Default: some seconds. */
  readonly totalMs?: number;
  readonly tuneMs?: number;
  /** Default: some million. */
  readonly leastWeights?: number;
  /** What may be chosen; for tests. */
  readonly offers?: Partial<KernelOffers>;
  /** Kernels tried, of how many. */
  readonly onProgress?: (done: number, total: number) => void;
  /** Ends it between two kernels. */
  readonly signal?: AbortSignal;
}
