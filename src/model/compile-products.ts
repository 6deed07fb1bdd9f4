import type { Gpu } from '../gpu/gpu.ts';
import { Linear } from '../gpu/linear.ts';
import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { LlamaLayerWeights } from './llama-weights.ts';

/** Compiles a layer's products, whose kernels take longest; what is compiled already costs nothing. */
export async function compileLayer(gpu: Gpu, weights: LlamaLayerWeights): Promise<void> {
  const { qkv, attentionOutput, gateUp, down } = weights;
  await Promise.all([
    Linear.compile(gpu, qkv, { finish: qkv.paired ? 'rotate' : 'store', normed: true }),
    Linear.compile(gpu, attentionOutput, { finish: 'emit', normed: false }),
    Linear.compile(gpu, gateUp, { finish: gateUp.paired ? 'gate' : 'store', normed: true }),
    Linear.compile(gpu, down, { finish: 'emit', normed: false }),
  ]);
}

/** Compiles the head's product. */
export function compileHead(gpu: Gpu, matrix: WeightMatrix): Promise<void> {
  return Linear.compile(gpu, matrix, { finish: 'store', normed: false });
}
