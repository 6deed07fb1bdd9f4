import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { AdjustLogits } from '../gpu/adjust-logits.ts';
import { Gpu } from '../gpu/gpu.ts';
import { Sampler } from '../gpu/sampler.ts';
import { StepAdvance } from '../gpu/step-advance.ts';
import { compileKernels } from './compile-kernels.ts';
import { decoderKernels } from './decoder-kernels.ts';
import { openDecoder } from './describe-decoder.ts';
import { GpuRunner } from './gpu-runner.ts';
import type { LoadOptions } from './load-options.ts';
import { decoderRoom, placeDecoder } from './place-decoder.ts';
import { SlotBuffers } from './slot-buffers.ts';
import { maxCountedIds } from './slot-traits.ts';

/**
 * Loads a decoder onto `device` with a KV pool of its own. Everything allocated is freed again if it fails.
 * Rejects with CheckpointError (bad file or config), AllocationError (no room, with sizes) or RangeError (options).
 */
export async function loadDecoder(
  device: GPUDevice,
  stored: Checkpoint,
  modelConfig: ModelConfig,
  options: LoadOptions,
): Promise<GpuRunner> {
  const opened = openDecoder(stored, modelConfig);
  const gpu = new Gpu(device, options);
  try {
    const needs = decoderKernels(stored, modelConfig, { ...options, bindingLimit: gpu.bindingLimit });
    const start = performance.now();
    // Kernels compile while weights are read: both take seconds, on cores of their own.
    const [runner] = await Promise.all([load(gpu, opened, options), compileKernels(gpu, needs)]);
    performance.measure('load model', { start });
    return runner;
  } catch (error) {
    gpu.destroy();
    throw error;
  }
}

async function load(gpu: Gpu, opened: ReturnType<typeof openDecoder>, options: LoadOptions): Promise<GpuRunner> {
  const room = decoderRoom(opened.config, options, gpu.bindingLimit);
  const { limits } = room;
  const slots = await SlotBuffers.create(gpu, limits);
  const placed = await placeDecoder(gpu, opened, room, { ...options, lastIds: slots.lastIds });
  const { model, step } = placed;
  const { tileRows, logits } = model;
  const vocabulary = limits.vocabSize;
  const { maxLogitsRows, maxTop, maxLogprobIds, maxBiases } = limits;
  const sampler = await Sampler.create(
    gpu,
    { vocabulary, tileRows, maxLogitsRows, maxTop, maxIds: maxTop, maxLogprobIds },
    { step, logits, lastIds: slots.lastIds, slotIds: slots.slotIds },
  );
  const adjust = await AdjustLogits.create(
    gpu,
    { vocabulary, tileRows, maxLogitsRows, maxCounted: maxCountedIds(limits), maxBiases },
    { ...slots, step, logits },
  );
  const advance = await StepAdvance.create(gpu, step);
  return GpuRunner.create({ ...placed, gpu, sampler, adjust, slots, advance, limits });
}
