import type { Gpu } from './gpu.ts';

/**
 * Threads of a workgroup that has a row to itself: the `THREADS` of the sampler's kernels. A processor that plays a GPU
 * runs few threads at once, and each barrier costs it by the thread.
 */
export function rowThreads({ device }: Gpu): number {
  const most = device.adapterInfo?.subgroupMaxSize;
  return most !== undefined && most < 16 ? 4 : 64;
}
