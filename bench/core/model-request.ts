import type { KernelFlags } from '../../src/engine/kernel-report.ts';
import type { Quantisation } from '../../src/gpu/quantise.ts';

/** How random weights are kept. */
export type RandomQuant = Quantisation | 'f16' | 'f32';

/** What bench:model measures; plain data, so that it can be sent to a Web Worker. */
export interface ModelRequest {
  readonly name: string;
  /** A real model is at `url`, as a relay serves it; else made up after a config.json. */
  readonly weights: { readonly url: string } | { readonly configText: string; readonly quant: RandomQuant };
  readonly promptTokens: number;
  readonly newTokens: number;
  /** Sequences at once; each is measured by itself. */
  readonly batches: readonly number[];
  readonly kernels: KernelFlags;
  /** What is likely to end later, in milliseconds from the start, is left out; undefined: nothing is. */
  readonly budgetMs: number | undefined;
}
