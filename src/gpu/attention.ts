import type { AttentionChoice } from './attention-choice.ts';
import { type AttentionKernel, compileAttention, compileMerge } from './attention-kernels.ts';
import type { Gpu } from './gpu.ts';
import type { Kernel } from './kernel.ts';
import type { KvFormat } from './kv-format.ts';
import { FIRST_TABLE_WORD } from './step-layout.ts';

export interface AttentionShape {
  readonly heads: number;
  /** Divides `heads`. */
  readonly kvHeads: number;
  /** Numbers of a head; four divides it. */
  readonly headSize: number;
  readonly kvFormat: KvFormat;
  /** Keys a row sees, itself included; absent: all before it. */
  readonly window?: number;
  /** A row sees every key of its sequence, later ones too. */
  readonly bidirectional?: boolean;
  /** Multiplies the products of query and key; default: 1 / √headSize. */
  readonly scale?: number;
  /** Scores become cap · tanh(score / cap). */
  readonly cap?: number;
  /** Which word of a sequence's metadata has its block table; default: that of KV group 0. */
  readonly tableWord?: number;
}

export interface AttentionBuffers {
  readonly step: GPUBuffer;
  /** [rows, heads, headSize] f32. */
  readonly query: GPUBuffer;
  /** [blocks, 2, kvHeads, 16, headSize]. */
  readonly kv: GPUBuffer;
  /** splitItemBytes(shape) for each split item; absent: no row is ever split. */
  readonly parts?: GPUBuffer | undefined;
  /** [rows, heads, headSize] f32. */
  readonly output: GPUBuffer;
}

/** How many rows and parts of rows of a step take which form. */
export interface AttentionWork {
  readonly wholeRows: number;
  readonly splitRows: number;
  readonly splitItems: number;
}

interface AttentionGroups {
  readonly whole: GPUBindGroup;
  readonly parts: GPUBindGroup;
  readonly merge: GPUBindGroup;
}

/** Bytes of scratch for one split of a row. */
export function splitItemBytes(shape: { readonly heads: number; readonly headSize: number }): number {
  return shape.heads * (shape.headSize + 4) * 4;
}

/**
 * Grouped-query attention over KV block tables: of whole rows (prefill), and of parts of 64 keys that are merged (decode,
 * and the last rows of a prompt), with the same sums. The step's metadata says which row takes which; see
 * shaders/attention-*.wgsl. Parts are compiled late: until then all rows have to be whole.
 */
export class Attention {
  readonly #whole: AttentionKernel;
  readonly #merge: Kernel;
  readonly #groups: AttentionGroups;
  /** Threads that merge a row. */
  readonly #mergeThreads: number;
  #parts: AttentionKernel | undefined;

  private constructor(whole: AttentionKernel, merge: Kernel, groups: AttentionGroups, mergeThreads: number) {
    this.#whole = whole;
    this.#merge = merge;
    this.#groups = groups;
    this.#mergeThreads = mergeThreads;
  }

  /** Throws RangeError where a form can't be had of this shape. */
  static async create(
    gpu: Gpu,
    shape: AttentionShape,
    buffers: AttentionBuffers,
    choice: AttentionChoice = gpu.choices.attention,
  ): Promise<Attention> {
    const words = shape.headSize / 4;
    const [whole, merge] = await Promise.all([compileAttention(gpu, shape, 'whole', choice), compileMerge(gpu)]);
    const fields = [
      shape.heads,
      shape.kvHeads,
      { f32: shape.scale ?? 1 / Math.sqrt(shape.headSize) },
      shape.window ?? 0,
      shape.bidirectional ? 1 : 0,
      shape.tableWord ?? FIRST_TABLE_WORD,
      { f32: shape.cap ?? 0 },
    ];
    const { step, query, kv, parts, output } = buffers;
    const [wholeGroup, partsGroup, mergeGroup] = await Promise.all([
      whole.kernel.bind(fields, [step, query, kv, output]),
      // Without parts something else is bound, and nothing is dispatched.
      whole.kernel.bind(fields, [step, query, kv, parts ?? output]),
      merge.bind([shape.heads, words, shape.window ?? 0], [step, parts ?? query, output]),
    ]);
    const groups = { whole: wholeGroup, parts: partsGroup, merge: mergeGroup };
    const attention = new Attention(whole, merge, groups, shape.heads * words);
    if (!parts) return attention;
    await gpu.late(async () => {
      attention.#parts = await compileAttention(gpu, shape, 'parts', choice);
    });
    return attention;
  }

  /** Compiles what must be there first, so that nothing waits for it later. */
  static async compile(gpu: Gpu, shape: AttentionShape): Promise<void> {
    await Promise.all([compileAttention(gpu, shape, 'whole', gpu.choices.attention), compileMerge(gpu)]);
  }

  /** Whether rows may be split by now. */
  get splits(): boolean {
    return this.#parts !== undefined;
  }

  encode(pass: GPUComputePassEncoder, work: AttentionWork): void {
    this.#whole.encode(pass, this.#groups.whole, work.wholeRows);
    if (work.splitItems === 0) return;
    if (!this.#parts) throw new Error('rows are split before the kernel for it is there');
    this.#parts.encode(pass, this.#groups.parts, work.splitItems);
    this.#merge.dispatchThreads(pass, this.#groups.merge, work.splitRows * this.#mergeThreads);
  }
}
