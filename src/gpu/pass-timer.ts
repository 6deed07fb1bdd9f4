import type { KernelTrial } from './kernel-trial.ts';

/** What a timed submit should take at least: many times what a submit itself takes. */
const LEAST_MS = 4;
/** Dispatches of one submit, at most. */
const MOST_REPEATS = 4096;

/** Milliseconds of what `encode` records, one of many in a submit: clocks and submits are too coarse for a single one. */
export async function timePass(trial: KernelTrial, encode: (pass: GPUComputePassEncoder) => void): Promise<number> {
  const submit = (repeats: number) => timeSubmit(trial, encode, repeats);
  let repeats = 1;
  await submit(repeats);
  let ms = await submit(repeats);
  while (ms < LEAST_MS && repeats < MOST_REPEATS) {
    repeats = Math.min(MOST_REPEATS, repeats * Math.max(2, Math.min(16, Math.ceil(LEAST_MS / Math.max(ms, 0.05)))));
    ms = await submit(repeats);
  }
  if (repeats === 1) return ms;
  // The submit's own time goes; the less disturbed of two runs counts.
  const twice = Math.min(await submit(2 * repeats), await submit(2 * repeats));
  ms = Math.min(ms, await submit(repeats));
  return twice > ms ? (twice - ms) / repeats : twice / (2 * repeats);
}

async function timeSubmit(
  trial: KernelTrial,
  encode: (pass: GPUComputePassEncoder) => void,
  repeats: number,
): Promise<number> {
  const { device } = trial.gpu;
  const encoder = device.createCommandEncoder({ label: 'tuner' });
  const pass = encoder.beginComputePass({ label: 'tuner' });
  for (let i = 0; i < repeats; i++) encode(pass);
  pass.end();
  const commands = encoder.finish();
  const start = performance.now();
  device.queue.submit([commands]);
  await trial.within(device.queue.onSubmittedWorkDone());
  return performance.now() - start;
}
