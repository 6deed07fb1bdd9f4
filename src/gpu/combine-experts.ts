import code from '../../shaders/combine-experts.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';

export interface CombineShape {
  readonly columns: number;
  readonly chosen: number;
}

export interface CombineBuffers {
  readonly step: GPUBuffer;
  /** [rows, chosen] f32. */
  readonly shares: GPUBuffer;
  /** [rows, chosen, columns padded to 4] f32. */
  readonly made: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly output: GPUBuffer;
}

/** What becomes of the sums; see shaders/combine-experts.wgsl. */
export type CombineFinish =
  | { readonly kind: 'store' }
  | { readonly kind: 'add'; readonly scale: number }
  | {
      readonly kind: 'emit';
      readonly scale: number;
      /** The next norm's weights, [columns padded to 4] f32. */
      readonly gain: GPUBuffer;
      /** Like the output. */
      readonly scaled: GPUBuffer;
      /** [rows, squaresWords(columns)] vec4. */
      readonly squares: GPUBuffer;
    };

/** In the order of combine-experts.wgsl. */
const FINISHES = ['store', 'add', 'emit'] as const;

/** Adds up what the chosen experts of a row made of it, each by its share. */
export class CombineExperts {
  readonly #kernel: Kernel;
  readonly #group: GPUBindGroup;
  readonly #lanes: number;

  private constructor(kernel: Kernel, group: GPUBindGroup, lanes: number) {
    this.#kernel = kernel;
    this.#group = group;
    this.#lanes = lanes;
  }

  static async create(gpu: Gpu, { columns, chosen }: CombineShape, finish: CombineFinish, buffers: CombineBuffers) {
    const kernel = await Kernel.compile(gpu, {
      name: 'combine-experts',
      code: [code],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'read', 'write', 'write'],
    });
    const lanes = 4 * squaresWords(columns);
    const unused = await gpu.placeholder();
    const { step, shares, made, output } = buffers;
    const emits = finish.kind === 'emit' ? finish : undefined;
    const scale = finish.kind === 'store' ? 1 : finish.scale;
    const group = await kernel.bind(
      [columns, 4 * rowWords(columns), lanes, chosen, FINISHES.indexOf(finish.kind), { f32: scale }],
      [step, shares, made, output, emits?.gain ?? step, emits?.scaled ?? unused[0], emits?.squares ?? unused[1]],
    );
    return new CombineExperts(kernel, group, lanes);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#kernel.dispatchThreads(pass, this.#group, rows * this.#lanes);
  }
}
