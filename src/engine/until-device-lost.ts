import { TrialLost } from '../gpu/device-watch.ts';
import { KernelLost } from '../gpu/self-test.ts';
import { DeviceLostError } from './device-lost-error.ts';

/** What runs on a lost device fails in this time by itself, if it fails at all. */
const FAILS_WITHIN_MS = 2_000;
/** A lost device fails what runs on it, and may say only afterwards that it is lost. */
const SAYS_WITHIN_MS = 100;

/**
 * What `work` on `device` comes to. Where the device is lost meanwhile it rejects with DeviceLostError, whatever the work makes
 * of it, and if it makes nothing of it; KernelLost and TrialLost stay what they are.
 */
export async function untilDeviceLost<T>(device: GPUDevice, work: Promise<T>): Promise<T> {
  let loss: DeviceLostError | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const lost = device.lost.then(({ reason, message }) => {
    loss = new DeviceLostError(message || reason);
  });
  const hung = new Promise<never>((_, reject) => {
    void lost.then(() => {
      timer = setTimeout(() => reject(loss), FAILS_WITHIN_MS);
    });
  });
  try {
    return await Promise.race([work, hung]);
  } catch (error) {
    if (error instanceof KernelLost || error instanceof TrialLost) throw error;
    await Promise.race([lost, new Promise((resolve) => setTimeout(resolve, SAYS_WITHIN_MS))]);
    throw loss ?? error;
  } finally {
    clearTimeout(timer);
    // Nobody waits for it any more.
    hung.catch(() => {});
    work.catch(() => {});
  }
}
