import activationCode from '../../shaders/activation.wgsl?raw';
import denseUnit from '../../shaders/linear-dense.wgsl?raw';
import memoryCode from '../../shaders/linear-memory.wgsl?raw';
import quantUnit from '../../shaders/linear-quant.wgsl?raw';
import sumsCode from '../../shaders/linear-sums.wgsl?raw';
import normFactorCode from '../../shaders/norm-factor.wgsl?raw';
import entriesCode from '../../shaders/segment-entries.wgsl?raw';
import code from '../../shaders/segmented-linear.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { candidates } from './linear-candidates.ts';
import type { LinearPartShape } from './linear-choice.ts';
import { linearFeatures } from './linear-features.ts';
import { type LinearVariant, variantName } from './linear-variant.ts';
import type { BindingKind } from './pipeline-cache.ts';
import { quantShape } from './quant-format.ts';
import { GROUP_ENTRIES } from './segment-entries.ts';
import { expandTemplate } from './template.ts';
import { isQuantFormat, type MatrixFormat, matrixLayout } from './weight-format.ts';

/** Uniform, step, weights, input, output, entries, squares; scales follow where there are any. */
const BINDINGS: readonly BindingKind[] = ['uniform', 'read', 'read', 'read', 'write', 'read', 'read'];

/** Variants of a segmented product: one entry a thread, or a group of them. Both sum in one order. */
export interface SegmentedChoice {
  readonly splits: number;
  readonly single: LinearVariant;
  readonly grouped: LinearVariant;
}

/** What a device gets for a part: of a dense product's variants those whose threads take one column, and four. */
export function segmentedChoice(device: GPUDevice, part: LinearPartShape): SegmentedChoice {
  const [first] = candidates(part, { finish: 'gate', normed: false }, linearFeatures(device), 'exact');
  const { splits, matvec } = first!;
  const grouped = matvec[GROUP_ENTRIES - 1]!;
  return { splits, single: matvec[0]!, grouped: { ...grouped, columns: GROUP_ENTRIES } };
}

/** A variant for one format and for all finishes. */
export function compileSegmented(gpu: Gpu, format: MatrixFormat, variant: LinearVariant): Promise<Kernel> {
  const layout = matrixLayout(format);
  const { path, rows, columns, threads, columnThreads, splitThreads, chains } = variant;
  const shape = isQuantFormat(format) ? quantShape(format) : undefined;
  const flags: Record<string, boolean> = {
    ...{ SINGLE: columns === 1, GROUPED: columns > 1, PAIRS: rows >= 2 && rows <= 8 },
    ...{ SPLIT: splitThreads > 1, WHOLE: splitThreads === 1, SHARED: false, ALONE: true },
    ...{ CHAINS_OF_4: chains === 4, ONE_CHAIN: chains === 1, VECTORS: chains === 4, SCALARS: chains === 1 },
    ...{ QUADS: path === 'quads', SINGLES: path !== 'quads', SUMS: true, MATRIX: false },
    ...{ EXACT: true, HALF: false, DOT: false, COPIED: false, CONVERTED: false },
    ...{ DENSE: !shape, Q4: shape?.bits === 4, Q8: shape?.bits === 8 },
    ...{ BLOCKS_OF_16: shape?.block === 16, BLOCKS_OF_32: shape?.block === 32 },
  };
  const counts = Object.fromEntries(Object.entries(flags).map(([name, holds]) => [name, holds ? 1 : 0]));
  const template = code
    .replace('#declare\n', memoryCode)
    .replace('#sums\n', sumsCode)
    // What a product makes of its sums follows in the template.
    .replace('#finish\n', '')
    .replaceAll('#unit\n', shape ? quantUnit : denseUnit);
  const numbers = { WORD_VECTORS: shape ? 8 : 1, OWN_COLUMNS: columns };
  return Kernel.compile(gpu, {
    name: `segmented-linear ${format} ${variantName(variant)}`,
    enables: path === 'quads' ? ['subgroups'] : [],
    code: [
      ...[normFactorCode, entriesCode, activationCode],
      ...layout.code,
      expandTemplate(template, { ...counts, ...numbers, ROWS: rows, COLUMNS: columns }),
    ],
    constants: {
      ...layout.constants,
      ...numbers,
      ...{ ROWS: rows, COLUMNS: columns, THREADS: threads, COLUMN_THREADS: columnThreads, SPLIT_THREADS: splitThreads },
      SCALES_BINDING: BINDINGS.length,
    },
    bindings: shape ? [...BINDINGS, 'read'] : BINDINGS,
    threads,
  });
}
