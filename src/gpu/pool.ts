import code from '../../shaders/pool.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';

/** In the order of pool.wgsl's kinds. */
const KINDS = ['mean', 'cls', 'last', 'max'] as const;

/** The mean of a sequence's rows, the first one, the last one, or each column's largest number. */
export type PoolKind = (typeof KINDS)[number];

export interface PoolBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [maxSequences, columns padded to 4] f32. */
  readonly output: GPUBuffer;
}

/** One row for each of the step's sequences; see shaders/pool.wgsl. */
export class Pool {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #words: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, words: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#words = words;
  }

  /** Compiled once for all shapes. */
  static compile(gpu: Gpu): Promise<Kernel> {
    return Kernel.compile(gpu, {
      name: 'pool',
      code: [stepCode, code],
      bindings: ['uniform', 'read', 'read', 'write'],
    });
  }

  static async create(gpu: Gpu, columns: number, kind: PoolKind, { step, input, output }: PoolBuffers): Promise<Pool> {
    const kernel = await Pool.compile(gpu);
    const words = rowWords(columns);
    return new Pool(kernel, await kernel.bind([words, KINDS.indexOf(kind)], [step, input, output]), words);
  }

  encode(pass: GPUComputePassEncoder, sequences: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, sequences * this.#words);
  }
}
