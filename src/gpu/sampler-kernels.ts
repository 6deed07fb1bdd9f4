import acceptCode from '../../shaders/accept-draw.wgsl?raw';
import bucketAtCode from '../../shaders/bucket-at.wgsl?raw';
import collectCode from '../../shaders/bucket-collect.wgsl?raw';
import bucketJobCode from '../../shaders/bucket-job.wgsl?raw';
import massesCode from '../../shaders/bucket-masses.wgsl?raw';
import scanCode from '../../shaders/bucket-scan.wgsl?raw';
import chunksCode from '../../shaders/chunk-stats.wgsl?raw';
import drawCode from '../../shaders/draw.wgsl?raw';
import headCode from '../../shaders/draw-head.wgsl?raw';
import tailCode from '../../shaders/draw-tail.wgsl?raw';
import keyCode from '../../shaders/logit-key.wgsl?raw';
import wordsCode from '../../shaders/logit-words.wgsl?raw';
import anyWordsCode from '../../shaders/logit-words-any.wgsl?raw';
import bestCode from '../../shaders/row-best.wgsl?raw';
import ofChunksCode from '../../shaders/row-chunks.wgsl?raw';
import ofLogitsCode from '../../shaders/row-logits.wgsl?raw';
import rowsCode from '../../shaders/row-stats.wgsl?raw';
import stateCode from '../../shaders/sampler-state.wgsl?raw';
import searchCode from '../../shaders/search-tokens.wgsl?raw';
import selectCode from '../../shaders/select-token.wgsl?raw';
import wholeCode from '../../shaders/select-whole.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import tellIdCode from '../../shaders/tell-id.wgsl?raw';
import tellCode from '../../shaders/tell-logprobs.wgsl?raw';
import threefryCode from '../../shaders/threefry.wgsl?raw';
import topCode from '../../shaders/top-logprobs.wgsl?raw';
import aboveCode from '../../shaders/weigh-above.wgsl?raw';
import laterCode from '../../shaders/weigh-later.wgsl?raw';
import regionsCode from '../../shaders/weigh-regions.wgsl?raw';
import withinCode from '../../shaders/weigh-within.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel, type KernelSource } from './kernel.ts';

/** The search of many tokens: by buckets over all its workgroups, then in one bucket. */
export interface BucketKernels {
  readonly masses: Kernel;
  readonly scan: Kernel;
  readonly collect: Kernel;
  readonly select: Kernel;
}

/** What a vocabulary takes that one workgroup doesn't go through in no time: enough for rows of which only the best id is told. */
export interface BestKernels {
  readonly chunks: Kernel;
  readonly best: Kernel;
}

/** Whether a draw over the whole row stays. */
export interface StayKernels {
  readonly above: Kernel;
  readonly accept: Kernel;
}

/** Draws and logprobs. */
export interface DrawKernels {
  readonly rows: Kernel;
  /** Searches a row in one workgroup. */
  readonly whole: Kernel;
  readonly top: Kernel;
  readonly tell: Kernel;
  /** Its chunks have sums of their own: a large vocabulary's. */
  readonly chunked: boolean;
  /** Of a large vocabulary where many threads run at once; else `rows` weighs draws itself. */
  readonly stay: StayKernels | undefined;
}

/** From here on, threads of a workgroup are too many to leave idle. */
const LEAST_MANY_THREADS = 16;

export interface SamplerVariant {
  readonly vocabulary: number;
  readonly small: boolean;
  /** Threads of a workgroup that has a row to itself; a power of two from 4 to 64. */
  readonly threads: number;
}

/** A vocabulary that is a multiple of four is read four logits at a time. */
export async function compileBest(gpu: Gpu, { vocabulary, threads }: SamplerVariant): Promise<BestKernels> {
  const words = wordsOf(vocabulary);
  const compile = compileWith(gpu, threads);
  const [chunks, best] = await Promise.all([
    compile('chunk-stats', [stateCode, words, chunksCode], 2, 1),
    compile('row-best', [stateCode, words, bestCode], 3, 2),
  ]);
  return { chunks, best };
}

export async function compileDraws(gpu: Gpu, { vocabulary, small, threads }: SamplerVariant): Promise<DrawKernels> {
  const words = wordsOf(vocabulary);
  const compile = compileWith(gpu, threads);
  const row = [keyCode, stateCode, words, ...DRAW, headCode, tailCode, rowsCode];
  // A row's own workgroup weighs its draws where that leaves few threads of the adapter idle: other kernels would cost more
  // than they save.
  const within = small || threads < LEAST_MANY_THREADS;
  const compileRows = () =>
    small
      ? compile('row-stats of logits', [...row, ofLogitsCode, withinCode], 2, 5)
      : compile('row-stats', [...row, ofChunksCode, within ? regionsCode : laterCode], 2, 5, 1);
  const compileStay = async (): Promise<StayKernels> => {
    const [above, accept] = await Promise.all([
      compile('weigh-above', [keyCode, stateCode, words, aboveCode], 4, 1),
      compile('accept-draw', [keyCode, stateCode, words, tellIdCode, acceptCode], 4, 4),
    ]);
    return { above, accept };
  };
  const [rows, whole, top, tell, stay] = await Promise.all([
    compileRows(),
    compile('select-whole', [...SEARCH, wholeCode], 4, 4),
    compile('top-logprobs', [keyCode, stateCode, topCode], 5, 1),
    compile('tell-logprobs', [stateCode, tellCode], 4, 1),
    within ? undefined : compileStay(),
  ]);
  return { rows, whole, top, tell, chunked: !small, stay };
}

/** Compiles the search of many tokens; until it is there select-whole stands in for it. */
export async function compileBuckets(gpu: Gpu, { vocabulary, threads }: SamplerVariant): Promise<BucketKernels> {
  const words = wordsOf(vocabulary);
  const compile = compileWith(gpu, threads);
  const [masses, scan, collect, select] = await Promise.all([
    compile('bucket-masses', [stateCode, words, bucketJobCode, massesCode], 5, 1),
    compile('bucket-scan', [stateCode, threefryCode, drawCode, bucketAtCode, scanCode], 1, 4),
    compile('bucket-collect', [stateCode, words, bucketJobCode, collectCode], 6, 1),
    compile('select-token', [...SEARCH, bucketAtCode, selectCode], 4, 4),
  ]);
  return { masses, scan, collect, select };
}

const DRAW = [threefryCode, drawCode, tellIdCode];
const SEARCH = [keyCode, stateCode, ...DRAW, searchCode];

function wordsOf(vocabulary: number): string {
  return vocabulary % 4 === 0 ? wordsCode : anyWordsCode;
}

function compileWith(gpu: Gpu, threads: number) {
  return (name: string, code: readonly string[], reads: number, writes: number, after = 0) => {
    const kinds = [
      'uniform',
      ...Array(reads).fill('read'),
      ...Array(writes).fill('write'),
      ...Array(after).fill('read'),
    ];
    const bindings = kinds as KernelSource['bindings'];
    return Kernel.compile(gpu, { name, code: [stepCode, ...code], bindings, constants: { THREADS: threads } });
  };
}
