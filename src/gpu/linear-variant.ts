import { isQuantFormat, type MatrixFormat, TILE_ROWS } from './weight-format.ts';

/**
 * What the products are made with. plain: WGSL without features. quads: those of a subgroup share what they load of the
 * input; of quantised formats, on devices with subgroups. Of precision fast: f16, products in halves (shader-f16); dot,
 * of 8-bit integers (packed_4x8_integer_dot_product); matrix, of fragments (chromium-experimental-subgroup-matrix).
 */
export type LinearPath = 'plain' | 'quads' | 'f16' | 'dot' | 'matrix';

export const LINEAR_PATHS: readonly LinearPath[] = ['plain', 'quads', 'f16', 'dot', 'matrix'];

/** A shape that an adapter multiplies subgroup matrices in: rows m by columns n, k summed over. */
export interface FragmentShape {
  readonly component: 'f16' | 'f32';
  readonly result: 'f16' | 'f32';
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Threads of a subgroup. */
  readonly subgroup: number;
}

/** How a linear kernel spreads over threads. Exact variants of equal splits and chains give the same bits. */
export interface LinearVariant {
  readonly path: LinearPath;
  /** Rows of a thread; a power of two, at most 64. */
  readonly rows: number;
  /** Columns of a thread. */
  readonly columns: number;
  /** Threads of a workgroup along rows; where columnThreads is 1, then columns. */
  readonly threads: number;
  /** Threads of a workgroup along columns. More than 1 share the input in workgroup memory. */
  readonly columnThreads: number;
  /** Threads of a workgroup along K, one a split; 1: a thread walks all splits. */
  readonly splitThreads: number;
  /** Sums that a thread keeps of a split, over k mod chains: four fill vectors, one fits more rows and columns. */
  readonly chains: 1 | 4;
  /** Of the path matrix. */
  readonly fragment?: FragmentShape;
}

/** What becomes of the sums. */
export interface LinearForm {
  /**
   * store: written. add: added to the output. emit: added, and left ready for the next norm. gate and rotate: of paired
   * matrices, SiLU of the first times the second, and rotary embedding with the write of K and V.
   */
  readonly finish: 'store' | 'add' | 'emit' | 'gate' | 'rotate';
  /** Whether the input is yet to be divided by its root mean square. */
  readonly normed: boolean;
}

/** What every device has. */
const WORKGROUP_BYTES = 16_384;
/** Rows by columns of a thread. */
const MOST_SUMS = 256;

/** Its name, which linearVariantOf takes: path-rows×columns-threads×columnThreads×splitThreads-chains[-fragment]. */
export function variantName(variant: LinearVariant): string {
  const { path, rows, columns, threads, columnThreads, splitThreads, chains, fragment } = variant;
  const name = `${path}-${rows}x${columns}-${threads}x${columnThreads}x${splitThreads}-${chains}`;
  if (!fragment) return name;
  const { component, result, m, n, k, subgroup } = fragment;
  return `${name}-${component}.${result}.${m}x${n}x${k}.${subgroup}`;
}

const NAME = /^([a-z0-9]+)-(\d+)x(\d+)-(\d+)x(\d+)x(\d+)-([14])(?:-(f16|f32)\.(f16|f32)\.(\d+)x(\d+)x(\d+)\.(\d+))?$/;

/** The variant with this name. Throws RangeError where there is none. */
export function linearVariantOf(name: string): LinearVariant {
  const parts = NAME.exec(name);
  const path = LINEAR_PATHS.find((known) => known === parts?.[1]);
  if (!parts || !path) {
    throw new RangeError(
      `no variant of a product is named ${JSON.stringify(name)}; names are like plain-8x4-64x1x1-4, paths ${LINEAR_PATHS.join(', ')}`,
    );
  }
  const number = (at: number) => Number(parts[at]);
  const variant: LinearVariant = {
    path,
    ...{ rows: number(2), columns: number(3), threads: number(4), columnThreads: number(5), splitThreads: number(6) },
    chains: number(7) as 1 | 4,
    ...(parts[8] && {
      fragment: {
        ...{ component: parts[8] as 'f16' | 'f32', result: parts[9] as 'f16' | 'f32' },
        ...{ m: number(10), n: number(11), k: number(12), subgroup: number(13) },
      },
    }),
  };
  checkVariant(variant);
  return variant;
}

/** Whether a workgroup's columns lie in its memory. */
export function sharesInput({ path, columnThreads }: LinearVariant): boolean {
  return columnThreads > 1 || path === 'f16' || path === 'dot' || path === 'matrix';
}

/** How the subgroups of a workgroup lie over its tile: rows, columns. */
export function fragmentGrid({ threads, columnThreads }: LinearVariant, fragment: FragmentShape): [number, number] {
  const subgroups = (threads * columnThreads) / fragment.subgroup;
  const rows = subgroups % 2 === 0 && (TILE_ROWS / 2) % fragment.m === 0 ? 2 : 1;
  return [rows, subgroups / rows];
}

/** Units of 32 columns of K that a workgroup's memory takes at a time: as many as its threads fill at once. */
export function fillUnits(variant: LinearVariant, format?: MatrixFormat): number {
  const { path, columns, threads, columnThreads, splitThreads } = variant;
  if ((path !== 'f16' && path !== 'dot') || !format || !isQuantFormat(format)) return 1;
  const groupColumns = columns * columnThreads;
  const bytes = splitThreads * groupColumns * (path === 'dot' ? 48 : 144);
  return Math.max(1, Math.min(8, Math.ceil((threads * columnThreads) / groupColumns), Math.floor(4096 / bytes)));
}

/** Bytes of memory that a workgroup shares, at most: what stands in for halves takes twice as much. */
function workgroupBytes(variant: LinearVariant, format?: MatrixFormat): number {
  const { path, rows, columns, threads, columnThreads, splitThreads, fragment } = variant;
  const groupColumns = columns * columnThreads;
  if (fragment) {
    const number = fragment.component === 'f16' ? 2 : 4;
    return (TILE_ROWS + groupColumns) * 32 * number + columnThreads * TILE_ROWS * 4;
  }
  const sums = splitThreads === 1 ? 0 : splitThreads * threads * columnThreads * rows * columns * 4;
  if (!sharesInput(variant)) return sums;
  const units = fillUnits(variant, format);
  const column = (units * (path === 'dot' ? 2 : 8) + 1) * 16;
  const scales = path === 'f16' || path === 'dot' ? units * 16 : 0;
  return sums + splitThreads * groupColumns * (column + scales);
}

/** Throws RangeError where a variant can't be: at all, or in a form or of a format where these are given. */
export function checkVariant(variant: LinearVariant, form?: LinearForm, format?: MatrixFormat): void {
  const { path, rows, columns, threads, columnThreads, splitThreads, chains, fragment } = variant;
  const refuse = (why: string): never => {
    throw new RangeError(`variant ${variantName(variant)}: ${why}`);
  };
  if (![1, 2, 4, 8, 16, 32, 64].includes(rows)) refuse(`${rows} rows a thread; a power of two up to ${TILE_ROWS}`);
  for (const [count, what] of [
    [columns, 'columns'],
    [threads, 'threads'],
    [columnThreads, 'threads along columns'],
    [splitThreads, 'threads along K'],
  ] as const) {
    if (!Number.isInteger(count) || count < 1) refuse(`${count} ${what}; at least 1`);
  }
  // Each is a register, and a line of the source.
  if (rows * columns > MOST_SUMS) refuse(`${rows * columns} sums a thread; at most ${MOST_SUMS}`);
  const invocations = threads * columnThreads * splitThreads;
  if (invocations > 256) refuse(`${invocations} threads a workgroup; devices may have 256`);
  const bytes = workgroupBytes(variant, format);
  if (bytes > WORKGROUP_BYTES) refuse(`${bytes} bytes of workgroup memory; devices may have ${WORKGROUP_BYTES}`);
  if (path === 'quads' && threads % 4 !== 0) refuse(`${threads} threads are no whole quads`);
  if (path === 'quads' && format && !isQuantFormat(format)) refuse(`quads take quantised formats, not ${format}`);
  if (path === 'dot' && format && !isQuantFormat(format)) refuse(`integers are of quantised formats, not of ${format}`);
  if (sharesInput(variant) && path === 'quads') refuse('quads share the input already');
  if (isFast(path) && chains !== 1) refuse('paths of precision fast have one chain');
  if ((path === 'matrix') !== (fragment !== undefined)) refuse('the path matrix has a fragment, and no other has');
  if (fragment) checkFragment(variant, fragment, refuse);
  // A thread of 8 rows has one of the sums of squares, and one of 2 whole pairs.
  if (form?.finish === 'emit' && rows !== 8) refuse(`${rows} rows a thread; emitting takes 8`);
  if ((form?.finish === 'gate' || form?.finish === 'rotate') && (rows < 2 || rows > 8)) {
    refuse(`${rows} rows a thread; pairs take 2, 4 or 8`);
  }
}

/** Whether products are rounded, to a tolerance of their own: linear.reference.ts. */
export function isFast(path: LinearPath): boolean {
  return path === 'f16' || path === 'dot' || path === 'matrix';
}

function checkFragment(variant: LinearVariant, fragment: FragmentShape, refuse: (why: string) => never): void {
  const { rows, columns, threads, columnThreads, splitThreads } = variant;
  const { m, n, k, subgroup } = fragment;
  if (rows * threads !== TILE_ROWS)
    refuse(`${rows} × ${threads} rows a workgroup; fragments take a tile of ${TILE_ROWS}`);
  if (splitThreads !== 1) refuse('fragments walk all of K');
  if (fragment.result !== 'f32') refuse('fragments are summed as f32');
  if ((threads * columnThreads) % subgroup !== 0)
    refuse(`${threads * columnThreads} threads are no whole subgroups of ${subgroup}`);
  const [gridRows, gridColumns] = fragmentGrid(variant, fragment);
  const own = (columns * columnThreads) / gridColumns;
  if (
    (TILE_ROWS / gridRows) % m !== 0 ||
    own % n !== 0 ||
    32 % k !== 0 ||
    columnThreads % n !== 0 ||
    (m * n) % subgroup !== 0
  ) {
    refuse(`fragments of ${m}x${n}x${k} don't divide ${TILE_ROWS / gridRows} rows by ${own} columns a subgroup`);
  }
}
