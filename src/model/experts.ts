import { CombineExperts, type CombineFinish } from '../gpu/combine-experts.ts';
import type { Gpu } from '../gpu/gpu.ts';
import { Linear, type LinearShape } from '../gpu/linear.ts';
import { RouteRows } from '../gpu/route-rows.ts';
import { rowWords } from '../gpu/row-words.ts';
import { SegmentEntries } from '../gpu/segment-entries.ts';
import { SegmentedLinear, type SegmentedShape } from '../gpu/segmented-linear.ts';
import type { SegmentedMatrix } from '../gpu/segmented-matrix.ts';
import { STEP_HEADER } from '../gpu/step-layout.ts';
import type { ExpertsConfig } from './decoder-config.ts';
import type { ExpertsWeights } from './experts-weights.ts';
import type { RowsKernel } from './rows-kernel.ts';

/** Buffers of what layers of one shape of experts leave between their kernels; layers that follow one another share them. */
export interface ExpertsScratch {
  /** [rows, experts padded to 4] f32: of the router. */
  readonly logits: GPUBuffer;
  readonly entries: SegmentEntries;
  /** [rows, chosen] f32 */
  readonly shares: GPUBuffer;
  /** [rows, chosen, size padded to 4] f32 */
  readonly gated: GPUBuffer;
  /** [rows, chosen, hiddenSize padded to 4] f32 */
  readonly made: GPUBuffer;
}

export async function allocateExperts(
  gpu: Gpu,
  hiddenSize: number,
  { experts, chosen, size }: ExpertsConfig,
  rows: number,
  step: GPUBuffer,
): Promise<ExpertsScratch> {
  const allocate = (label: string, count: number, columns: number) =>
    gpu.storage(label, count * rowWords(columns) * 16);
  const [logits, entries, shares, gated, made] = await Promise.all([
    allocate('router logits', rows, experts),
    SegmentEntries.create(gpu, { segments: experts, entriesARow: chosen, maxRows: rows }, step),
    gpu.storage('shares of experts', 4 * rows * chosen),
    allocate('gated by experts', rows * chosen, size),
    allocate('made by experts', rows * chosen, hiddenSize),
  ]);
  return { logits, entries, shares, gated, made };
}

/** Layers whose mixtures have one key share a scratch. */
export function expertsKey({ experts, chosen, size }: ExpertsConfig): string {
  return `${chosen} of ${experts} of ${size}`;
}

/** Bytes of a scratch for `rows` rows, but for its groups' few. */
export function expertsBytes(
  hiddenSize: number,
  { experts, chosen, size }: Pick<ExpertsConfig, 'experts' | 'chosen' | 'size'>,
  rows: number,
): number {
  return rows * (16 * rowWords(experts) + chosen * (8 + 16 * (rowWords(size) + rowWords(hiddenSize))));
}

/** Where a mixture finds its rows, and where it puts what it makes of them. */
export interface ExpertsPlace {
  readonly step: GPUBuffer;
  /** [rows, hiddenSize padded to 4] f32 */
  readonly input: GPUBuffer;
  /** The input is yet to be divided by its root mean square. */
  readonly norm?: LinearShape['norm'];
  /** Like the input. */
  readonly output: GPUBuffer;
  readonly finish: CombineFinish;
}

/**
 * The feed-forward network of a mixture of experts: a router's product, the choice of each row's experts, their gate and
 * up, their down, and the sum by shares: six kernels, one more where many rows are put together by expert. Every row is
 * computed as if it were alone, and no expert drops one.
 */
export class Experts {
  readonly #kernels: readonly RowsKernel[];

  private constructor(kernels: readonly RowsKernel[]) {
    this.#kernels = kernels;
  }

  static async create(
    gpu: Gpu,
    hiddenSize: number,
    config: ExpertsConfig,
    weights: ExpertsWeights,
    { logits, entries, shares, gated, made }: ExpertsScratch,
    { step, input, norm, output, finish }: ExpertsPlace,
  ): Promise<Experts> {
    const { experts, chosen, size, activation, normalised } = config;
    const stride = 4 * rowWords(experts);
    const ofNorm = norm ? { norm } : {};
    const inner = (matrix: SegmentedMatrix, kind: NonNullable<SegmentedShape['finish']>) =>
      SegmentedLinear.create(
        gpu,
        matrix,
        entries,
        { outputStride: 4 * rowWords(size), input: 'row', finish: kind, ...ofNorm },
        { step, input, output: gated },
      );
    const gateUp =
      'gateUp' in weights.inner
        ? [inner(weights.inner.gateUp, { kind: 'gate', activation })]
        : [inner(weights.inner.gate, { kind: 'activate', activation }), inner(weights.inner.up, { kind: 'multiply' })];
    return new Experts(
      await Promise.all<RowsKernel>([
        Linear.create(
          gpu,
          weights.router,
          { outputStride: stride, countWord: STEP_HEADER.rows, ...ofNorm },
          { step, input, output: logits },
        ),
        RouteRows.create(gpu, { experts, chosen, normalised, stride }, { step, logits, list: entries.list, shares }),
        entries,
        ...gateUp,
        SegmentedLinear.create(
          gpu,
          weights.down,
          entries,
          { outputStride: 4 * rowWords(hiddenSize), input: 'entry' },
          { step, input: gated, output: made },
        ),
        CombineExperts.create(gpu, { columns: hiddenSize, chosen }, finish, { step, shares, made, output }),
      ]),
    );
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    for (const kernel of this.#kernels) kernel.encode(pass, rows);
  }
}
