import { AllocationError, BufferOwner } from './buffer-owner.ts';
import { defaultChoices, type KernelChoices } from './kernel-choices.ts';
import { LateKernels } from './late-kernels.ts';
import { PipelineCache, type ShaderError } from './pipeline-cache.ts';
import { deviceLanguage } from './request-device.ts';

export interface GpuOptions {
  /** Bytes a storage binding may have, below the device's own limit; lets tests cut weights into parts. */
  readonly bindingLimit?: number | undefined;
  /** Default: what is taken where no tuner has measured. */
  readonly choices?: KernelChoices | undefined;
  /** Take kernels' parameters as immediates, where the device has them; default: as uniforms (docs/kernels.md). */
  readonly immediates?: boolean | undefined;
  /** Leave kernels that others can stand in for to compileLate. */
  readonly late?: boolean | undefined;
}

/** What kernels of one user (a runner, a test) share: the device, its pipelines, and the owner of their buffers. */
export class Gpu {
  readonly device: GPUDevice;
  readonly buffers: BufferOwner;
  readonly pipelines: PipelineCache;
  /** Bytes a storage binding may have. */
  readonly bindingLimit: number;
  readonly choices: KernelChoices;
  /** Whether kernels take their parameters as immediates. */
  readonly immediates: boolean;
  readonly #late: LateKernels | undefined;
  readonly #uniforms = new Map<string, Promise<GPUBuffer>>();
  #placeholder: Promise<GPUBuffer> | undefined;

  constructor(device: GPUDevice, options: GpuOptions = {}) {
    const { bindingLimit = Number.POSITIVE_INFINITY, choices, immediates = false, late = false } = options;
    this.immediates = immediates && deviceLanguage(device).has('immediate_address_space');
    this.device = device;
    this.choices = choices ?? defaultChoices(device);
    this.#late = late ? new LateKernels() : undefined;
    this.buffers = new BufferOwner(device);
    this.pipelines = PipelineCache.of(device);
    const { maxStorageBufferBindingSize, maxBufferSize } = device.limits;
    this.bindingLimit = Math.min(bindingLimit, maxStorageBufferBindingSize, maxBufferSize);
  }

  /** A storage buffer that shaders use and that can be copied to and from. Zeroed. Rejects with AllocationError. */
  async storage(label: string, bytes: number): Promise<GPUBuffer> {
    const limit = this.device.limits.maxStorageBufferBindingSize;
    if (bytes > limit)
      throw new AllocationError(`${label}: ${bytes} bytes are over the device's binding limit of ${limit}`);
    return this.buffers.allocate(
      label,
      bytes,
      GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
    );
  }

  /** A uniform buffer with these words; equal contents share one buffer, since none ever changes. */
  uniform(words: Uint32Array<ArrayBuffer>): Promise<GPUBuffer> {
    const key = words.join();
    let buffer = this.#uniforms.get(key);
    if (!buffer) {
      buffer = this.buffers
        .allocate('uniform', words.byteLength, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST)
        .then((made) => {
          this.device.queue.writeBuffer(made, 0, words);
          return made;
        });
      this.#uniforms.set(key, buffer);
    }
    return buffer;
  }

  /** Two ranges to bind where a kernel has storage to write that it won't touch here. */
  placeholder(): Promise<[GPUBufferBinding, GPUBufferBinding]> {
    this.#placeholder ??= this.storage('placeholder', 512);
    return this.#placeholder.then((buffer) => [
      { buffer, offset: 0, size: 256 },
      { buffer, offset: 256, size: 256 },
    ]);
  }

  /**
   * Runs `compile` at once, or leaves it to compileLate, where it comes before all that others can stand in for: of kernels
   * that some work waits for. Where the device refuses one, compileLate rejects.
   */
  async awaited(compile: () => Promise<void>): Promise<void> {
    if (this.#late) this.#late.addAwaited(compile);
    else await compile();
  }

  /** Runs `compile` at once, or leaves it to compileLate: of a kernel that others can stand in for. */
  async late(compile: () => Promise<void>, when?: 'soon' | 'later'): Promise<void> {
    if (this.#late) this.#late.add(compile, when);
    else await compile();
  }

  /**
   * Compiles what was left for later, one after the other. Resolves with what the device refused and others stand in for;
   * rejects with ShaderError where it refused what is awaited. While `busy`, what need not come soon waits a little.
   */
  async compileLate(busy?: () => boolean): Promise<readonly ShaderError[]> {
    return (await this.#late?.compileAll(busy)) ?? [];
  }

  /** Frees every buffer made through this; none can be made any more. */
  destroy(): void {
    this.#late?.end();
    this.#uniforms.clear();
    this.buffers.close();
  }
}
