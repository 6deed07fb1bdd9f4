import activationCode from '../../shaders/activation.wgsl?raw';
import code from '../../shaders/linear.wgsl?raw';
import denseUnit from '../../shaders/linear-dense.wgsl?raw';
import dotUnit from '../../shaders/linear-dot.wgsl?raw';
import fillCode from '../../shaders/linear-fill.wgsl?raw';
import finishCode from '../../shaders/linear-finish.wgsl?raw';
import fragmentsCode from '../../shaders/linear-fragments.wgsl?raw';
import matrixCode from '../../shaders/linear-matrix.wgsl?raw';
import memoryCode from '../../shaders/linear-memory.wgsl?raw';
import quantUnit from '../../shaders/linear-quant.wgsl?raw';
import sumsCode from '../../shaders/linear-sums.wgsl?raw';
import normFactorCode from '../../shaders/norm-factor.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import tanhCode from '../../shaders/tanh.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import {
  checkVariant,
  fillUnits,
  fragmentGrid,
  type LinearForm,
  type LinearVariant,
  sharesInput,
  variantName,
} from './linear-variant.ts';
import type { BindingKind } from './pipeline-cache.ts';
import { quantShape } from './quant-format.ts';
import { expandTemplate } from './template.ts';
import { isQuantFormat, type MatrixFormat, matrixLayout, TILE_ROWS } from './weight-format.ts';

/** Uniform, step, weights, input, output, what some finishes read and write, squares; scales follow where there are any. */
const BINDINGS: readonly BindingKind[] = ['uniform', 'read', 'read', 'read', 'write', 'read', 'write', 'write'];

const known = new WeakMap<Gpu, Map<string, Promise<LinearKernel>>>();

/** A compiled variant for one format. It is made for all forms that its rows allow, and so compiled once for these. */
export class LinearKernel {
  readonly kernel: Kernel;
  readonly #variant: LinearVariant;

  private constructor(kernel: Kernel, variant: LinearVariant) {
    this.kernel = kernel;
    this.#variant = variant;
  }

  /** A kernel that was compiled for `gpu` is not made again. */
  static async compile(
    gpu: Gpu,
    format: MatrixFormat,
    variant: LinearVariant,
    form: LinearForm = { finish: 'store', normed: false },
  ): Promise<LinearKernel> {
    let kernels = known.get(gpu);
    if (!kernels) {
      kernels = new Map();
      known.set(gpu, kernels);
    }
    checkVariant(variant, form, format);
    const key = `${format} ${variantName(variant)}`;
    let kernel = kernels.get(key);
    if (!kernel) {
      kernel = LinearKernel.#compile(gpu, format, variant);
      kernels.set(key, kernel);
    }
    return kernel;
  }

  static async #compile(gpu: Gpu, format: MatrixFormat, variant: LinearVariant): Promise<LinearKernel> {
    const layout = matrixLayout(format);
    const { rows, columns, threads, columnThreads, splitThreads } = variant;
    const { flags, numbers, enables, half } = traits(gpu, format, variant);
    const template = code
      .replace('#declare\n', flags.MATRIX ? fragmentsCode : memoryCode)
      .replace('#sums\n', flags.MATRIX ? matrixCode : sumsCode)
      .replaceAll('#unit\n', flags.DOT ? dotUnit : flags.DENSE ? denseUnit : quantUnit)
      .replace('#fill\n', fillCode)
      .replace('#finish\n', finishCode);
    const counts = Object.fromEntries(Object.entries(flags).map(([name, holds]) => [name, holds ? 1 : 0]));
    const kernel = await Kernel.compile(gpu, {
      name: `linear ${format} ${variantName(variant)}`,
      enables,
      code: [
        ...half.map((name) => `alias ${name};`),
        stepCode,
        tanhCode,
        activationCode,
        normFactorCode,
        ...layout.code,
        expandTemplate(template, { ...counts, ...numbers, ROWS: rows, COLUMNS: columns }),
      ],
      constants: {
        ...layout.constants,
        ...numbers,
        ...{ ROWS: rows, COLUMNS: columns, THREADS: threads },
        ...{ COLUMN_THREADS: columnThreads, SPLIT_THREADS: splitThreads, SCALES_BINDING: BINDINGS.length },
      },
      bindings: flags.DENSE ? BINDINGS : [...BINDINGS, 'read'],
      threads,
    });
    return new LinearKernel(kernel, variant);
  }

  /** Takes `columns` columns of a part of `tiles` tiles. */
  encode(pass: GPUComputePassEncoder, group: GPUBindGroup, tiles: number, columns: number): void {
    const variant = this.#variant;
    const rowThreads = (tiles * TILE_ROWS) / variant.rows;
    const along = Math.ceil(columns / (variant.columns * variant.columnThreads));
    if (sharesInput(variant)) this.kernel.dispatch(pass, group, Math.ceil(rowThreads / variant.threads) * along);
    else this.kernel.dispatchThreads(pass, group, rowThreads * along);
  }
}

/** What the template is expanded with: which of its parts hold, and numbers that are constants, too. */
function traits(gpu: Gpu, format: MatrixFormat, variant: LinearVariant) {
  const { path, rows, columns, columnThreads, splitThreads, chains, fragment } = variant;
  const shape = isQuantFormat(format) ? quantShape(format) : undefined;
  const has = (feature: string) => gpu.device.features.has(feature as GPUFeatureName);
  const halves = path === 'f16' || fragment?.component === 'f16';
  const f16 = halves && has('shader-f16');
  const matrix = path === 'matrix';
  const native = matrix && has('chromium-experimental-subgroup-matrix') && f16 === halves;
  const dot = path === 'dot';
  const shared = sharesInput(variant);
  const converted = path === 'f16' || dot;
  const flags: Record<string, boolean> = {
    ...{ SPLIT: splitThreads > 1, WHOLE: splitThreads === 1, SHARED: shared, ALONE: !shared },
    ...{ CHAINS_OF_4: chains === 4, ONE_CHAIN: chains === 1 },
    ...{ QUADS: path === 'quads' && !shared, SINGLES: path !== 'quads' && !shared },
    ...{ HALF: halves, EXACT: !halves && !dot, DOT: dot, COPIED: shared && !converted, CONVERTED: converted },
    ...{ VECTORS: halves || chains === 4, SCALARS: !halves && chains === 1 },
    ...{ MATRIX: matrix, SUMS: !matrix, NATIVE: native, EMULATED: matrix && !native },
    ...{ EMITS: rows === 8, PAIRS: rows >= 2 && rows <= 8 },
    ...{ DENSE: !shape, Q4: shape?.bits === 4, Q8: shape?.bits === 8 },
    ...{ BLOCKS_OF_16: shape?.block === 16, BLOCKS_OF_32: shape?.block === 32 },
  };
  // Vectors of the input for a word of the weights, and for 32 columns of K in the tile.
  const numbers: Record<string, number> = { WORD_VECTORS: shape ? 8 : 1, OWN_COLUMNS: matrix ? 1 : columns };
  if (shared && !matrix) {
    const units = fillUnits(variant, format);
    Object.assign(numbers, {
      FILL_UNITS: units,
      CENTRE: shape?.bits === 4 ? 8 : 0,
      FILL_WORDS: units * (shape ? 1 : 8),
      UNIT_VECTORS: dot ? 2 : 8,
    });
  }
  if (fragment) {
    const [gridRows, gridColumns] = fragmentGrid(variant, fragment);
    Object.assign(numbers, {
      ...{ SUBGROUP: fragment.subgroup, GRID_ROWS: gridRows, GRID_COLUMNS: gridColumns },
      // SwiftShader compiles as long as there is workgroup memory, most of a millisecond a word.
      K_TILE: native ? 32 : Math.max(16, fragment.k),
      ...{ FRAGMENT_M: fragment.m, FRAGMENT_N: fragment.n, FRAGMENT_K: fragment.k },
      FRAGMENT_ROWS: TILE_ROWS / gridRows / fragment.m,
      FRAGMENT_COLUMNS: (columns * columnThreads) / gridColumns / fragment.n,
    });
  }
  return {
    flags,
    numbers,
    enables: [
      ...(path === 'quads' ? ['subgroups'] : []),
      ...(f16 ? ['f16'] : []),
      ...(native ? ['chromium_experimental_subgroup_matrix'] : []),
    ],
    half: [`${matrix ? 'Component' : 'Half'} = ${f16 ? 'f16' : 'f32'}`],
  };
}
