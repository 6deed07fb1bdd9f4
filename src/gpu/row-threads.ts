import type { Gpu } from './gpu.ts';

/** Whether a processor plays the GPU: by how few threads it runs at once. */
export function playsGpu({ device }: Gpu): boolean {
  const most = device.adapterInfo?.subgroupMaxSize;
  return most !== undefined && most < 16;
}

/**
 * Threads of a workgroup that has a row to itself: the `THREADS` of the sampler's kernels. A processor that plays a GPU
 * runs few threads at once, and each barrier costs it by the thread.
 */
export function rowThreads(gpu: Gpu): number {
  return playsGpu(gpu) ? 4 : 64;
}
