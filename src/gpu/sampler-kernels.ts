import acceptCode from '../../shaders/accept-draw.wgsl?raw';
import bucketAtCode from '../../shaders/bucket-at.wgsl?raw';
import collectCode from '../../shaders/bucket-collect.wgsl?raw';
import massesCode from '../../shaders/bucket-masses.wgsl?raw';
import scanCode from '../../shaders/bucket-scan.wgsl?raw';
import chunksCode from '../../shaders/chunk-stats.wgsl?raw';
import drawCode from '../../shaders/draw.wgsl?raw';
import headCode from '../../shaders/draw-head.wgsl?raw';
import tailCode from '../../shaders/draw-tail.wgsl?raw';
import keyCode from '../../shaders/logit-key.wgsl?raw';
import wordsCode from '../../shaders/logit-words.wgsl?raw';
import anyWordsCode from '../../shaders/logit-words-any.wgsl?raw';
import rowsCode from '../../shaders/row-stats.wgsl?raw';
import stateCode from '../../shaders/sampler-state.wgsl?raw';
import searchCode from '../../shaders/search-tokens.wgsl?raw';
import selectCode from '../../shaders/select-token.wgsl?raw';
import wholeCode from '../../shaders/select-whole.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import tellCode from '../../shaders/tell-logprobs.wgsl?raw';
import threefryCode from '../../shaders/threefry.wgsl?raw';
import topCode from '../../shaders/top-logprobs.wgsl?raw';
import aboveCode from '../../shaders/weigh-above.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel, type KernelSource } from './kernel.ts';

/** The search of a large vocabulary: by buckets over all its workgroups, then in one bucket. */
export interface BucketKernels {
  readonly masses: Kernel;
  readonly scan: Kernel;
  readonly collect: Kernel;
  readonly select: Kernel;
}

export interface SamplerKernels {
  readonly chunks: Kernel;
  readonly rows: Kernel;
  /** Whether a draw over the whole row stays. */
  readonly above: Kernel;
  readonly accept: Kernel;
  /** A small vocabulary is searched by one kernel. */
  readonly search: { readonly buckets: BucketKernels } | { readonly whole: Kernel };
  readonly top: Kernel;
  readonly tell: Kernel;
}

const SEARCH = [keyCode, stateCode, threefryCode, drawCode, searchCode];

/** Compiles the sampler's kernels for a vocabulary: a multiple of four is read four logits at a time. */
export async function compileSampler(gpu: Gpu, vocabulary: number, small: boolean): Promise<SamplerKernels> {
  const compile = (name: string, code: readonly string[], reads: number, writes: number) => {
    const bindings = ['uniform', ...Array(reads).fill('read'), ...Array(writes).fill('write')];
    return Kernel.compile(gpu, { name, code: [stepCode, ...code], bindings: bindings as KernelSource['bindings'] });
  };
  const words = vocabulary % 4 === 0 ? wordsCode : anyWordsCode;
  const searched = async () => {
    if (small) return { whole: await compile('select-whole', [...SEARCH, wholeCode], 4, 4) };
    const [masses, scan, collect, select] = await Promise.all([
      compile('bucket-masses', [stateCode, words, massesCode], 5, 1),
      compile('bucket-scan', [stateCode, threefryCode, drawCode, bucketAtCode, scanCode], 1, 4),
      compile('bucket-collect', [stateCode, words, collectCode], 6, 1),
      compile('select-token', [...SEARCH, bucketAtCode, selectCode], 5, 3),
    ]);
    return { buckets: { masses, scan, collect, select } };
  };
  const [chunks, rows, above, accept, search, top, tell] = await Promise.all([
    compile('chunk-stats', [stateCode, words, chunksCode], 2, 1),
    compile('row-stats', [keyCode, stateCode, words, threefryCode, drawCode, headCode, tailCode, rowsCode], 3, 4),
    compile('weigh-above', [keyCode, stateCode, words, aboveCode], 4, 1),
    compile('accept-draw', [keyCode, stateCode, acceptCode], 3, 3),
    searched(),
    compile('top-logprobs', [keyCode, stateCode, topCode], 5, 1),
    compile('tell-logprobs', [stateCode, tellCode], 4, 3),
  ]);
  return { chunks, rows, above, accept, search, top, tell };
}
