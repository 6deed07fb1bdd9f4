import type { Gpu } from '../gpu/gpu.ts';
import type { LinearShape } from '../gpu/linear.ts';
import type { LinearForm } from '../gpu/linear-variant.ts';
import type { LowRankSlots } from '../gpu/low-rank-slots.ts';
import { inTileOrder, LowRankUpdate } from '../gpu/low-rank-update.ts';
import { rowWords } from '../gpu/row-words.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { SITE_KINDS } from './adapter-sites.ts';
import type { StreamReader } from './residual-stream.ts';
import type { RowsKernel } from './rows-kernel.ts';

/** Adapters at one site of a layer. */
export interface SiteAdapters {
  readonly slots: LowRankSlots;
  /** Scratch of updates; see LowRankBuffers. */
  readonly shrunk: GPUBuffer;
}

/** At a site whose product is followed by kernels of its own, since an update comes before these. */
export interface ProductAdapters extends SiteAdapters {
  /** [rows, outputs padded to 4] f32: where the sums go. */
  readonly sums: GPUBuffer;
  /** Of a paired matrix: they come from here, [rows, tiles · 64] f32. */
  readonly tiles: GPUBuffer | undefined;
}

/** Of a layer, by site; undefined: none come in there. */
export type LayerAdapters = Readonly<
  Record<Extract<(typeof SITE_KINDS)[number], 'qkv' | 'up'>, ProductAdapters | undefined> &
    Record<Extract<(typeof SITE_KINDS)[number], 'attentionOutput' | 'down'>, SiteAdapters | undefined>
>;

/** What rows' adapters make of `input` is added to `output`, `scale` times. */
export function updateSite(
  gpu: Gpu,
  { slots, shrunk }: SiteAdapters,
  site: {
    readonly step: GPUBuffer;
    readonly input: GPUBuffer;
    readonly output: GPUBuffer;
    readonly outputStride: number;
    readonly scale?: number;
    readonly norm?: LinearShape['norm'];
  },
): Promise<RowsKernel> {
  const { step, input, output, norm, ...options } = site;
  return LowRankUpdate.create(gpu, slots, { ...options, ...(norm ? { norm } : {}) }, { step, input, shrunk, output });
}

/**
 * A product's sums with what rows' adapters add, unpaired and in order: what its finish, otherwise, would have been given.
 * Of a row without an adapter they are the same to the bit: the same variant of the kernel sums.
 */
export async function adaptedProduct(
  gpu: Gpu,
  { slots, shrunk, sums, tiles }: ProductAdapters,
  step: GPUBuffer,
  reader: StreamReader,
  {
    matrix,
    half,
    finish,
  }: { readonly matrix: WeightMatrix; readonly half: number; readonly finish: LinearForm['finish'] },
): Promise<RowsKernel> {
  const outputStride = 4 * rowWords(matrix.rows);
  const options = { outputStride, ...(reader.norm ? { norm: reader.norm } : {}) };
  const buffers = { step, input: reader.input, shrunk, output: sums };
  const placed = matrix.paired ? inTileOrder(matrix) : matrix;
  const [product, update] = await Promise.all([
    reader.product(placed, matrix.paired ? tiles! : sums, placed.rows, { kind: 'store' }, (part, { normed }) =>
      gpu.choices.linear(part, { finish: matrix.paired ? finish : 'store', normed }),
    ),
    LowRankUpdate.create(
      gpu,
      slots,
      matrix.paired ? { ...options, from: { tiles: tiles!, matrix, half } } : options,
      buffers,
    ),
  ]);
  return {
    encode(pass, rows) {
      product.encode(pass, rows);
      update.encode(pass, rows);
    },
  };
}
