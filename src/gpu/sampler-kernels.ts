import collectCode from '../../shaders/bucket-collect.wgsl?raw';
import massesCode from '../../shaders/bucket-masses.wgsl?raw';
import scanCode from '../../shaders/bucket-scan.wgsl?raw';
import chunksCode from '../../shaders/chunk-stats.wgsl?raw';
import drawCode from '../../shaders/draw.wgsl?raw';
import keyCode from '../../shaders/logit-key.wgsl?raw';
import wordsCode from '../../shaders/logit-words.wgsl?raw';
import anyWordsCode from '../../shaders/logit-words-any.wgsl?raw';
import rowsCode from '../../shaders/row-stats.wgsl?raw';
import stateCode from '../../shaders/sampler-state.wgsl?raw';
import selectCode from '../../shaders/select-token.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import tellCode from '../../shaders/tell-logprobs.wgsl?raw';
import threefryCode from '../../shaders/threefry.wgsl?raw';
import topCode from '../../shaders/top-logprobs.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';

export interface SamplerKernels {
  readonly chunks: Kernel;
  readonly rows: Kernel;
  readonly masses: Kernel;
  readonly scan: Kernel;
  readonly collect: Kernel;
  readonly select: Kernel;
  readonly top: Kernel;
  readonly tell: Kernel;
}

/** Compiles the sampler's kernels for a vocabulary: a multiple of four is read four logits at a time. */
export async function compileSampler(gpu: Gpu, vocabulary: number): Promise<SamplerKernels> {
  const words = vocabulary % 4 === 0 ? wordsCode : anyWordsCode;
  const [chunks, rows, masses, scan, collect, select, top, tell] = await Promise.all([
    Kernel.compile(gpu, {
      name: 'chunk-stats',
      code: [stepCode, stateCode, words, chunksCode],
      bindings: ['uniform', 'read', 'read', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'row-stats',
      code: [stepCode, stateCode, rowsCode],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'write', 'write', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'bucket-masses',
      code: [stepCode, stateCode, words, massesCode],
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'bucket-scan',
      code: [stepCode, stateCode, threefryCode, drawCode, scanCode],
      bindings: ['uniform', 'read', 'read', 'write', 'write', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'bucket-collect',
      code: [stepCode, stateCode, words, collectCode],
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'read', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'select-token',
      code: [stepCode, keyCode, stateCode, threefryCode, drawCode, selectCode],
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'write', 'write', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'top-logprobs',
      code: [stepCode, keyCode, stateCode, topCode],
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'tell-logprobs',
      code: [stepCode, stateCode, tellCode],
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'write', 'write', 'write'],
    }),
  ]);
  return { chunks, rows, masses, scan, collect, select, top, tell };
}
