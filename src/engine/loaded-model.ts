import { TrialLost } from '../gpu/device-watch.ts';
import type { KernelChoices } from '../gpu/kernel-choices.ts';
import type { KernelNeeds } from '../gpu/kernel-needs.ts';
import type { ShaderError } from '../gpu/pipeline-cache.ts';
import { requestDevice } from '../gpu/request-device.ts';
import { KernelLost } from '../gpu/self-test.ts';
import type { AdapterFacts } from './adapter-facts.ts';
import type { KernelReport } from './kernel-report.ts';
import type { KernelSetup } from './kernel-setup.ts';
import { type LostKernels, prepareKernels } from './prepare-kernels.ts';

/** Devices that may be lost to kernels that are tried, until only the plain ones are. */
const MOST_LOSSES = 3;

/** A model with the device that it runs on, whatever it is for. */
export interface LoadedModel {
  readonly adapter: AdapterFacts;
  /** Names of the WebGPU features in use. */
  readonly features: readonly string[];
  readonly kernels: KernelReport;
  /** Resolves, once all is compiled that others stand in for at first, with what the device refused of it. */
  readonly refused: Promise<KernelReport['failed']>;
  readonly layers: number;
  readonly contextLength: number;
  /** Tokens that there is room for at once: of an engine in its KV pool. */
  readonly poolTokens: number;
  /** Live GPU buffers. */
  gpuBuffers(): number;
  /** Resolves with the reason when the device is lost or the model broke, never when it is destroyed here. */
  readonly lost: Promise<string>;
  /** Frees the device and all it holds. */
  destroy(): void;
}

/** A device for a model, and what earlier ones of this start were lost by. */
export interface ModelDevice {
  readonly adapter: GPUAdapter;
  readonly device: GPUDevice;
  readonly lostKernels: LostKernels;
}

/** What `load` makes on a device of `gpu`: of another one where kernels that were tried lost it. Where it fails, the device goes. */
export async function loadOnDevice<T>(gpu: GPU, load: (on: ModelDevice) => Promise<T>): Promise<T> {
  let lostKernels: LostKernels = { results: [], careful: false, plain: false };
  for (let losses = 1; ; losses++) {
    const start = performance.now();
    const { adapter, device } = await requestDevice(gpu);
    performance.measure('load device', { start });
    try {
      return await load({ adapter, device, lostKernels });
    } catch (error) {
      device.destroy();
      if (!(error instanceof KernelLost || error instanceof TrialLost) || losses > MOST_LOSSES) throw error;
      const results = [...lostKernels.results, ...(error instanceof KernelLost ? error.results : [])];
      lostKernels = { results, careful: true, plain: losses === MOST_LOSSES };
    }
  }
}

/** Chooses kernels and loads a runner with them: twice where its scales turn out to ask for others, and these fail. */
export async function loadWithKernels<R extends { destroy(): void }>(
  { device, lostKernels }: ModelDevice,
  needs: KernelNeeds,
  setup: KernelSetup,
  load: (choices: KernelChoices) => Promise<R>,
): Promise<{ readonly runner: R; readonly kernels: KernelReport }> {
  const start = performance.now();
  const prepared = await prepareKernels(device, needs, setup, lostKernels);
  performance.measure('load kernels', { start });
  for (;;) {
    const runner = await load(prepared.choices);
    try {
      if (await prepared.settle()) return { runner, kernels: prepared.report() };
    } catch (error) {
      runner.destroy();
      throw error;
    }
    // What was chosen instead is asked for now, and known: this ends.
    runner.destroy();
  }
}

/** What all loaded models tell of their device, and how they learn that it is lost. */
export class DeviceLife {
  readonly lost: Promise<string>;
  readonly #on: ModelDevice;
  #announce!: (reason: string) => void;
  #destroyed = false;

  constructor(on: ModelDevice) {
    this.#on = on;
    this.lost = new Promise((resolve) => {
      this.#announce = resolve;
    });
    void on.device.lost.then((info) => this.announceLoss(info.message || info.reason));
  }

  announceLoss = (reason: string): void => {
    if (!this.#destroyed) this.#announce(reason);
  };

  /** Adapter and features. */
  facts(): Pick<LoadedModel, 'adapter' | 'features'> {
    const { adapter, device } = this.#on;
    const { vendor, architecture, description, device: name, isFallbackAdapter } = adapter.info;
    return {
      adapter: { vendor, architecture, description: description || name, fallback: isFallbackAdapter },
      features: [...device.features].sort(),
    };
  }

  /** What `compiling` came to; where the device refused what is awaited, the model is lost. */
  refused(compiling: Promise<readonly ShaderError[]>): Promise<KernelReport['failed']> {
    return compiling.then(
      (errors) => errors.map(({ kernel, message }) => ({ name: kernel, why: message })),
      (error: Error) => {
        this.announceLoss(error.message);
        return [];
      },
    );
  }

  /** Nothing is announced from now on. */
  destroy(): void {
    this.#destroyed = true;
    this.#on.device.destroy();
  }
}
