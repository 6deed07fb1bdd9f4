import code from '../../shaders/linear.wgsl?raw';
import addCode from '../../shaders/linear-add.wgsl?raw';
import denseUnit from '../../shaders/linear-dense.wgsl?raw';
import gateCode from '../../shaders/linear-gate.wgsl?raw';
import pairCode from '../../shaders/linear-pair.wgsl?raw';
import quantUnit from '../../shaders/linear-quant.wgsl?raw';
import rotateCode from '../../shaders/linear-rotate.wgsl?raw';
import storeCode from '../../shaders/linear-store.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { checkVariant, type LinearForm, type LinearVariant } from './linear-variant.ts';
import type { BindingKind } from './pipeline-cache.ts';
import { quantShape } from './quant-format.ts';
import { expandTemplate } from './template.ts';
import { isQuantFormat, type MatrixFormat, matrixLayout, TILE_ROWS } from './weight-format.ts';

/** What a form declares, and the storage it binds beside step, weights, input and output. */
const FINISHES: Readonly<Record<LinearForm['finish'], { code: string; declare: string; bindings: BindingKind[] }>> = {
  store: { code: storeCode, declare: '', bindings: [] },
  add: { code: addCode, declare: '', bindings: [] },
  emit: {
    code: addCode,
    declare: `@group(0) @binding(5) var<storage, read> gain: array<f32>;
@group(0) @binding(6) var<storage, read_write> scaled: array<f32>;
@group(0) @binding(7) var<storage, read_write> squaresOut: array<f32>;`,
    bindings: ['read', 'write', 'write'],
  },
  gate: { code: gateCode, declare: pairCode, bindings: [] },
  rotate: {
    code: rotateCode,
    declare: `@group(0) @binding(5) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> kv: array<f32>;
${pairCode}
${stepCode}`,
    bindings: ['read', 'write'],
  },
};

/** A compiled variant for one format. */
export class LinearKernel {
  readonly kernel: Kernel;
  readonly #variant: LinearVariant;

  private constructor(kernel: Kernel, variant: LinearVariant) {
    this.kernel = kernel;
    this.#variant = variant;
  }

  static async compile(
    gpu: Gpu,
    format: MatrixFormat,
    variant: LinearVariant,
    form: LinearForm = { finish: 'store', normed: false },
  ): Promise<LinearKernel> {
    checkVariant(variant, form, format);
    const layout = matrixLayout(format);
    const shape = isQuantFormat(format) ? quantShape(format) : undefined;
    const finish = FINISHES[form.finish];
    const template = code
      .replace('#unit\n', shape ? quantUnit : denseUnit)
      .replace('#declare\n', `${finish.declare}\n`)
      .replace('#finish\n', finish.code);
    const { rows, columns, threads, splitThreads, path } = variant;
    const quads = path === 'quads';
    const flag = (holds: boolean) => (holds ? 1 : 0);
    const expanded = expandTemplate(template, {
      ROWS: rows,
      COLUMNS: columns,
      SPLIT: flag(splitThreads > 1),
      WHOLE: flag(splitThreads === 1),
      NORMED: flag(form.normed),
      PLAIN: flag(!form.normed),
      QUADS: flag(quads),
      SINGLES: flag(!quads),
      EMITS: flag(form.finish === 'emit'),
      Q4: flag(shape?.bits === 4),
      Q8: flag(shape?.bits === 8),
      BLOCKS_OF_16: flag(shape?.block === 16),
      BLOCKS_OF_32: flag(shape?.block === 32),
    });
    const bindings: BindingKind[] = ['uniform', 'read', 'read', 'read', 'write', ...finish.bindings];
    const SQUARES_BINDING = bindings.length;
    if (form.normed) bindings.push('read');
    const SCALES_BINDING = bindings.length;
    if (shape) bindings.push('read');
    const kernel = await Kernel.compile(gpu, {
      name: `linear ${form.normed ? 'normed ' : ''}${form.finish} ${format}${path === 'plain' ? '' : ` ${path}`}`,
      enables: quads ? ['subgroups'] : [],
      code: [...layout.code, expanded],
      constants: {
        ...layout.constants,
        ...{ ROWS: rows, COLUMNS: columns, THREADS: threads, SPLIT_THREADS: splitThreads },
        ...{ SQUARES_BINDING, SCALES_BINDING },
      },
      bindings,
      threads,
    });
    return new LinearKernel(kernel, variant);
  }

  /** Takes `columns` columns of a part of `tiles` tiles. */
  encode(pass: GPUComputePassEncoder, group: GPUBindGroup, tiles: number, columns: number): void {
    const tileThreads = TILE_ROWS / this.#variant.rows;
    this.kernel.dispatchThreads(pass, group, tiles * tileThreads * Math.ceil(columns / this.#variant.columns));
  }
}
