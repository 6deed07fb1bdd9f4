import type { Gpu } from '../gpu/gpu.ts';
import type { LinearFinish, LinearShape } from '../gpu/linear.ts';
import type { LowRankSlots } from '../gpu/low-rank-slots.ts';
import { inTileOrder, type LowRankFinish, LowRankUpdate } from '../gpu/low-rank-update.ts';
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
  /** Scratch of products of paired matrices, [rows, tiles · 64] f32; absent: no matrix is paired. */
  readonly tiles: GPUBuffer | undefined;
}

/** Of a layer, by site; undefined: none come in there. */
export type LayerAdapters = Readonly<Record<(typeof SITE_KINDS)[number], SiteAdapters | undefined>>;

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
    readonly norm?: LinearShape['norm'] | undefined;
  },
): Promise<LowRankUpdate> {
  const { step, input, output, norm, ...more } = site;
  const finish: LowRankFinish = { kind: 'add', ...more };
  return LowRankUpdate.create(gpu, slots, { norm, finish }, { step, input, shrunk, output });
}

/** The sums of a matrix that isn't paired in `output` [rows, matrix rows padded to 4], with what rows' adapters add. */
export function productInOrder(
  gpu: Gpu,
  step: GPUBuffer,
  { input, norm, product }: StreamReader,
  matrix: WeightMatrix,
  output: GPUBuffer,
  adapters: SiteAdapters | undefined,
): Promise<RowsKernel>[] {
  const outputStride = 4 * rowWords(matrix.rows);
  return [
    product(matrix, output, matrix.rows, { kind: 'store' }),
    ...(adapters ? [updateSite(gpu, adapters, { step, input, output, outputStride, norm })] : []),
  ];
}

/**
 * A paired matrix's product with what rows' adapters add, then finished: it stores its sums as they lie in its tiles, by the variant
 * that sums them otherwise, so that a row without an adapter has the same bits.
 */
export async function adaptedProduct(
  gpu: Gpu,
  { slots, shrunk, tiles }: SiteAdapters,
  step: GPUBuffer,
  { input, norm, product }: StreamReader,
  { matrix, output, columns, finish }: AdaptedProduct,
): Promise<readonly RowsKernel[]> {
  const placed = inTileOrder(matrix);
  const ofTiles = { tiles: tiles!, matrix };
  return Promise.all([
    product(placed, tiles!, placed.rows, { kind: 'store' }, (part, { normed }) =>
      gpu.choices.linear(part, { finish: finish.kind, normed }),
    ),
    LowRankUpdate.create(
      gpu,
      slots,
      {
        norm,
        finish:
          finish.kind === 'gate'
            ? { ...finish, ...ofTiles, outputStride: 4 * rowWords(columns) }
            : { ...finish, ...ofTiles },
      },
      { step, input, shrunk, output },
    ),
  ]);
}

/** As of StreamReader.product. */
interface AdaptedProduct {
  readonly matrix: WeightMatrix;
  readonly output: GPUBuffer;
  readonly columns: number;
  readonly finish: Extract<LinearFinish, { kind: 'gate' | 'rotate' }>;
}
