import type { RunnerLostError } from './runner-lost-error.ts';

/** How long a lost device may take to say so, after a readback failed. */
const SAYS_WITHIN_MS = 1_000;

/** What a step left to be read, and what went wrong with it meanwhile. */
export interface StagedStep {
  readonly device: GPUDevice;
  readonly staging: GPUBuffer;
  /** May be none: then the step is only waited for. */
  readonly bytes: number;
  /** What is wrong with what was submitted. */
  readonly validation: Promise<GPUError | null>;
  /** Why the runner has ended, once it has: as soon as a lost device says so. */
  readonly end: () => RunnerLostError | undefined;
}

/**
 * Waits for a step, and gives what `read` makes of its results, which it may not keep. Rejects with RunnerLostError once
 * the device is lost, with the reason where the step is invalid.
 */
export async function readStaging<T>(step: StagedStep, read: (results: ArrayBuffer) => T): Promise<T> {
  const { device, staging, bytes, validation } = step;
  try {
    if (bytes === 0) await device.queue.onSubmittedWorkDone();
    else await staging.mapAsync(GPUMapMode.READ, 0, bytes);
  } catch (error) {
    throw await failure(step, error as Error);
  }
  try {
    const invalid = await validation;
    if (invalid) throw new Error(`the step is invalid: ${invalid.message}`);
    return read(bytes === 0 ? new ArrayBuffer(0) : staging.getMappedRange(0, bytes));
  } finally {
    if (staging.mapState === 'mapped') staging.unmap();
  }
}

/** What is wrong with what was submitted since pushErrorScope; a lost device is told of elsewhere. */
export function submitProblem(device: GPUDevice): Promise<GPUError | null> {
  return device.popErrorScope().catch(() => null);
}

/** Why a readback failed. A lost device may say so only after the readback did. */
async function failure({ device, validation, end }: StagedStep, cause: Error): Promise<Error> {
  const invalid = await validation;
  if (invalid) return new Error(`the step is invalid: ${invalid.message}`);
  if (!end()) await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, SAYS_WITHIN_MS))]);
  return end() ?? new Error(`the step can't be read back: ${cause.message}`, { cause });
}
