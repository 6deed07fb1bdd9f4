import { median } from './stats.ts';

/** A submit shorter than this is timed by nothing but noise. */
const LEAST_MS = 20;
const MOST_REPEATS = 1 << 20;

/** Milliseconds from a submit of `repeats` times `encode` to its end, as the host sees it. */
async function submitMs(device: GPUDevice, encode: Encode, repeats: number): Promise<number> {
  const encoder = device.createCommandEncoder({ label: 'bench' });
  const pass = encoder.beginComputePass({ label: 'bench' });
  for (let i = 0; i < repeats; i++) encode(pass);
  pass.end();
  const commands = encoder.finish();
  const startedAt = performance.now();
  device.queue.submit([commands]);
  await device.queue.onSubmittedWorkDone();
  return performance.now() - startedAt;
}

export type Encode = (pass: GPUComputePassEncoder) => void;

/**
 * Milliseconds of one `encode`: (t(2r) − t(r)) ÷ r of r repeats inside one submit, r such that t(r) is at least 20 ms:
 * what a submit costs by itself cancels out. All samples, since the caller knows what it is after.
 */
export async function kernelMs(device: GPUDevice, encode: Encode, samples = 3): Promise<readonly number[]> {
  await submitMs(device, encode, 1);
  let repeats = 1;
  for (;;) {
    const ms = await submitMs(device, encode, repeats);
    if (ms >= LEAST_MS || repeats >= MOST_REPEATS) break;
    repeats = Math.max(repeats + 1, Math.ceil(repeats * Math.min(16, (1.3 * LEAST_MS) / Math.max(ms, 0.5))));
  }
  const all: number[] = [];
  // A sample in which somebody else had the processor may come out negative.
  for (let tries = 0; all.length < samples && tries < 3 * samples; tries++) {
    const once = await submitMs(device, encode, repeats);
    const twice = await submitMs(device, encode, 2 * repeats);
    if (twice > once) all.push((twice - once) / repeats);
  }
  return all;
}

export async function medianKernelMs(device: GPUDevice, encode: Encode, samples = 3): Promise<number> {
  return median(await kernelMs(device, encode, samples));
}
