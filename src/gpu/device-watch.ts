/** The device was lost while a kernel was tried, or the kernel never came to an end. */
export class TrialLost extends Error {
  override readonly name = 'TrialLost';
}

/** Bounds waits on a device: none outlasts the device, or its time. */
export class DeviceWatch {
  readonly device: GPUDevice;
  // Not races with device.lost: a promise keeps what waits on it.
  readonly #waiting = new Set<(error: TrialLost) => void>();
  #end: TrialLost | undefined;

  constructor(device: GPUDevice) {
    this.device = device;
    void device.lost.then(({ reason, message }) => {
      this.#end = new TrialLost(`the GPU device was lost (${reason}): ${message || 'no reason given'}`);
      for (const reject of this.#waiting) reject(this.#end);
      this.#waiting.clear();
    });
  }

  /** Throws TrialLost once the device is lost. */
  check(): void {
    if (this.#end) throw this.#end;
  }

  /** What `work` comes to. Rejects with TrialLost where the device is lost first, or `boundMs` pass. */
  within<T>(work: Promise<T>, boundMs: number): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#end) {
        // It may reject as well, later.
        work.catch(() => {});
        reject(this.#end);
        return;
      }
      const timer = setTimeout(() => reject(new TrialLost(`it did not end within ${boundMs / 1000} s`)), boundMs);
      this.#waiting.add(reject);
      work
        .then(resolve, (error) => this.#failed(error).then(reject))
        .finally(() => {
          clearTimeout(timer);
          this.#waiting.delete(reject);
        });
    });
  }

  /** A lost device fails what runs on it, and may say only afterwards that it is lost. */
  async #failed(error: unknown): Promise<unknown> {
    const late = new Promise<undefined>((resolve) => {
      setTimeout(() => resolve(undefined), 100);
    });
    return this.#end ?? (await Promise.race([this.device.lost.then(() => this.#end), late])) ?? error;
  }
}
