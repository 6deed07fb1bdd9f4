import mergeCode from '../../shaders/attention-merge.wgsl?raw';
import ruleCode from '../../shaders/attention-merge-rule.wgsl?raw';
import partsCode from '../../shaders/attention-parts.wgsl?raw';
import splitCode from '../../shaders/attention-split.wgsl?raw';
import wholeCode from '../../shaders/attention-whole.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { KV_FORMATS, type KvFormat } from './kv-format.ts';
import { expandTemplate } from './template.ts';

/** A decode row has few parts: half the usual workgroup gives twice the cores something to do. */
const PARTS_THREADS = 32;

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
}

export interface AttentionBuffers {
  readonly step: GPUBuffer;
  /** [rows, heads, headSize] f32. */
  readonly query: GPUBuffer;
  /** [blocks, 2, kvHeads, 16, headSize]. */
  readonly kv: GPUBuffer;
  /** splitItemBytes(shape) for each split item. */
  readonly parts: GPUBuffer;
  /** [rows, heads, headSize] f32. */
  readonly output: GPUBuffer;
}

/** How many rows and parts of rows of a step take which form. */
export interface AttentionWork {
  readonly wholeRows: number;
  readonly splitRows: number;
  readonly splitItems: number;
}

/** Bytes of scratch for one split of a row. */
export function splitItemBytes(shape: { readonly heads: number; readonly headSize: number }): number {
  return shape.heads * (shape.headSize + 4) * 4;
}

/**
 * Grouped-query attention over KV block tables, in two forms with the same sums: 'whole', a thread a row and head
 * (prefill), and 'parts' + 'merge', a thread a split of 64 keys (decode, and the last rows of a prompt). The step's metadata says which row takes
 * which; see shaders/attention-*.wgsl.
 */
export class Attention {
  readonly #kernels: readonly [Kernel, Kernel, Kernel];
  readonly #groups: readonly [GPUBindGroup, GPUBindGroup, GPUBindGroup];
  readonly #heads: number;
  readonly #words: number;

  private constructor(
    shape: AttentionShape,
    kernels: readonly [Kernel, Kernel, Kernel],
    groups: readonly [GPUBindGroup, GPUBindGroup, GPUBindGroup],
  ) {
    this.#heads = shape.heads;
    this.#words = shape.headSize / 4;
    this.#kernels = kernels;
    this.#groups = groups;
  }

  static async create(gpu: Gpu, shape: AttentionShape, buffers: AttentionBuffers): Promise<Attention> {
    const words = shape.headSize / 4;
    const constants = { HEAD_WORDS: words };
    const kvCode = KV_FORMATS[shape.kvFormat].code;
    const [whole, parts, merge] = await Promise.all([
      Kernel.compile(gpu, {
        name: `attention-whole ${shape.kvFormat}`,
        code: [stepCode, kvCode, expandTemplate(splitCode, constants), ruleCode, expandTemplate(wholeCode, constants)],
        constants,
        bindings: ['uniform', 'read', 'read', 'read', 'write'],
      }),
      Kernel.compile(gpu, {
        name: `attention-parts ${shape.kvFormat}`,
        code: [stepCode, kvCode, expandTemplate(splitCode, constants), expandTemplate(partsCode, constants)],
        constants,
        threads: PARTS_THREADS,
        bindings: ['uniform', 'read', 'read', 'read', 'write'],
      }),
      Kernel.compile(gpu, {
        name: 'attention-merge',
        code: [stepCode, ruleCode, mergeCode],
        bindings: ['uniform', 'read', 'read', 'write'],
      }),
    ]);
    const fields = [
      shape.heads,
      shape.kvHeads,
      { f32: 1 / Math.sqrt(shape.headSize) },
      shape.window ?? 0,
      shape.bidirectional ? 1 : 0,
    ];
    const { step, query, kv, output } = buffers;
    const groups = await Promise.all([
      whole.bind(fields, [step, query, kv, output]),
      parts.bind(fields, [step, query, kv, buffers.parts]),
      merge.bind([shape.heads, words], [step, buffers.parts, output]),
    ]);
    return new Attention(shape, [whole, parts, merge], groups);
  }

  encode(pass: GPUComputePassEncoder, work: AttentionWork): void {
    const [whole, parts, merge] = this.#kernels;
    whole.dispatchThreads(pass, this.#groups[0], work.wholeRows * this.#heads);
    parts.dispatchThreads(pass, this.#groups[1], work.splitItems * this.#heads);
    merge.dispatchThreads(pass, this.#groups[2], work.splitRows * this.#heads * this.#words);
  }
}
