import { AdjustLogits } from '../gpu/adjust-logits.ts';
import { Attention } from '../gpu/attention.ts';
import { compileRowKernels } from '../gpu/compile-row-kernels.ts';
import { Embedding } from '../gpu/embedding.ts';
import { EncoderEmbedding } from '../gpu/encoder-embedding.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { KernelNeeds } from '../gpu/kernel-needs.ts';
import { Linear } from '../gpu/linear.ts';
import { Sampler } from '../gpu/sampler.ts';
import { SegmentedLinear } from '../gpu/segmented-linear.ts';

/**
 * Compiles what takes long of a model's kernels, in that order: they are known before a weight is read, and compile while
 * weights are. What asks for them later finds them, or compiles what turned out otherwise.
 */
export async function compileKernels(gpu: Gpu, needs: KernelNeeds): Promise<void> {
  const { products, attention, embeddings, vocabulary, experts, rows } = needs;
  await Promise.all([
    ...(experts?.parts ?? []).map((part) => SegmentedLinear.compile(gpu, part)),
    ...products.map(({ part, form, mostColumns }) => Linear.compile(gpu, part, form, mostColumns)),
    Attention.compile(gpu, attention),
    ...(vocabulary === undefined ? [] : [Sampler.compile(gpu, vocabulary), AdjustLogits.compile(gpu, vocabulary)]),
    ...embeddings.map(({ format, of }) =>
      of === 'encoder rows' ? EncoderEmbedding.compile(gpu, format) : Embedding.compile(gpu, format, of),
    ),
    compileRowKernels(gpu, rows, attention),
  ]);
}
