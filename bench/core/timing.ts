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

/** What was measured of one `encode`, in milliseconds. */
export interface KernelTimes {
  /** (t(2r) − t(r)) ÷ r of r repeats inside one submit: what a submit costs by itself cancels out. One a sample. */
  readonly samples: readonly number[];
  /** The same of the shortest t(2r) and the shortest t(r): whoever disturbs only lengthens. */
  readonly best: number;
}

/** Times `encode`, with r such that t(r) is at least 20 ms. */
export async function kernelTimes(device: GPUDevice, encode: Encode, samples: number): Promise<KernelTimes> {
  await submitMs(device, encode, 1);
  let repeats = 1;
  for (;;) {
    const ms = await submitMs(device, encode, repeats);
    if (ms >= LEAST_MS || repeats >= MOST_REPEATS) break;
    repeats = Math.max(repeats + 1, Math.ceil(repeats * Math.min(16, (1.3 * LEAST_MS) / Math.max(ms, 0.5))));
  }
  const differences: number[] = [];
  let [once, twice] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  // A sample in which somebody else had the processor may come out negative.
  for (let tries = 0; differences.length < samples && tries < 3 * samples; tries++) {
    const first = await submitMs(device, encode, repeats);
    const second = await submitMs(device, encode, 2 * repeats);
    if (second > first) differences.push((second - first) / repeats);
    once = Math.min(once, first);
    twice = Math.min(twice, second);
  }
  return { samples: differences, best: twice > once ? (twice - once) / repeats : twice / (2 * repeats) };
}
