import { ActivateRows } from './activate-rows.ts';
import { AddNormed } from './add-normed.ts';
import type { AttentionShape } from './attention.ts';
import type { Gpu } from './gpu.ts';
import type { RowKernel } from './kernel-needs.ts';
import { LayerNorm } from './layer-norm.ts';
import { LowRankUpdate } from './low-rank-update.ts';
import { NormInput } from './norm-input.ts';
import { Pool } from './pool.ts';
import { RmsNorm } from './rms-norm.ts';
import { type QkNorm, Rope } from './rope.ts';

const rope = (of?: QkNorm) => (gpu: Gpu, shape: AttentionShape) =>
  Rope.compile(gpu, { ...shape, qkNorm: of && { of, epsilon: 0 } });

const COMPILE: Readonly<Record<RowKernel, (gpu: Gpu, attention: AttentionShape) => Promise<unknown>>> = {
  'rms-norm': RmsNorm.compile,
  'layer-norm': LayerNorm.compile,
  'norm-input': NormInput.compile,
  'add-normed': AddNormed.compile,
  rope: rope(),
  'rope head norm': rope('head'),
  'rope row norm': rope('row'),
  'activate-rows': ActivateRows.compile,
  'low-rank': LowRankUpdate.compile,
  pool: Pool.compile,
};

/** Compiles what goes over rows, of a model with attention of a shape. */
export async function compileRowKernels(
  gpu: Gpu,
  rows: readonly RowKernel[],
  attention: AttentionShape,
): Promise<void> {
  await Promise.all(rows.map((kernel) => COMPILE[kernel](gpu, attention)));
}
