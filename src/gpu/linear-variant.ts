import code from '../../shaders/linear.wgsl?raw';
import denseUnit from '../../shaders/linear-dense.wgsl?raw';
import quantUnit from '../../shaders/linear-quant.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { quantShape } from './quant-format.ts';
import { expandTemplate } from './template.ts';
import { isQuantFormat, type MatrixFormat, matrixLayout, TILE_ROWS } from './weight-format.ts';

/** How a linear kernel spreads over threads. Variants of equal splits give the same bits. */
export interface LinearVariant {
  /** Rows of a thread; a power of two, at most 64. */
  readonly rows: number;
  /** Columns of a thread. */
  readonly columns: number;
  /** Threads of a workgroup along rows, then columns. */
  readonly threads: number;
  /** Threads of a workgroup along K, one a split; 1: a thread walks all splits. */
  readonly splitThreads: number;
  /** Takes a quantised unit in two turns of a loop: half the code, more moves. */
  readonly looped?: boolean;
}

/** A compiled variant for one format. */
export class LinearKernel {
  readonly kernel: Kernel;
  readonly #variant: LinearVariant;

  private constructor(kernel: Kernel, variant: LinearVariant) {
    this.kernel = kernel;
    this.#variant = variant;
  }

  static async compile(gpu: Gpu, format: MatrixFormat, variant: LinearVariant): Promise<LinearKernel> {
    const layout = matrixLayout(format);
    const shape = isQuantFormat(format) ? quantShape(format) : undefined;
    const template = code.replace('#unit\n', shape ? quantUnit : denseUnit);
    const { rows, columns, threads, splitThreads } = variant;
    const flag = (holds: boolean) => (holds ? 1 : 0);
    const looped = variant.looped ?? false;
    const expanded = expandTemplate(template, {
      LOOPED: flag(looped),
      UNROLLED: flag(!looped),
      HALVES: looped ? 1 : 2,
      ROWS: rows,
      COLUMNS: columns,
      SPLIT: flag(splitThreads > 1),
      WHOLE: flag(splitThreads === 1),
      Q4: flag(shape?.bits === 4),
      Q8: flag(shape?.bits === 8),
      BLOCKS_OF_16: flag(shape?.block === 16),
      BLOCKS_OF_32: flag(shape?.block === 32),
    });
    const kernel = await Kernel.compile(gpu, {
      name: `linear ${format}`,
      code: [...layout.code, expanded],
      constants: { ...layout.constants, ROWS: rows, COLUMNS: columns, THREADS: threads, SPLIT_THREADS: splitThreads },
      bindings: ['uniform', 'read', 'read', 'read', 'write', ...layout.planes.slice(1).map(() => 'read' as const)],
      threads,
    });
    return new LinearKernel(kernel, variant);
  }

  /** Takes `columns` columns of a part of `rows` rows. */
  encode(pass: GPUComputePassEncoder, group: GPUBindGroup, rows: number, columns: number): void {
    const tileThreads = TILE_ROWS / this.#variant.rows;
    const threads = Math.ceil(rows / TILE_ROWS) * tileThreads * Math.ceil(columns / this.#variant.columns);
    this.kernel.dispatchThreads(pass, group, threads);
  }
}
