/** How a kernel sees a binding: a uniform, storage it reads, or storage it writes; immediates have none. */
export type BindingKind = 'uniform' | 'immediates' | 'read' | 'write';

/** Bytes of immediates: what WebGPU promises where there are any. */
const IMMEDIATE_BYTES = 64;

export interface CompiledKernel {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
  /** Whether its parameters are immediates. */
  readonly immediate: boolean;
}

/** A shader that the device refuses; the message has the kernel's name and the compiler's words. */
export class ShaderError extends Error {
  override readonly name = 'ShaderError';
  readonly kernel: string;

  constructor(kernel: string, why: string) {
    super(`kernel ${kernel}: ${why}`);
    this.kernel = kernel;
  }
}

const BUFFER_TYPES: Readonly<Record<Exclude<BindingKind, 'immediates'>, GPUBufferBindingType>> = {
  uniform: 'uniform',
  read: 'read-only-storage',
  write: 'storage',
};

const caches = new WeakMap<GPUDevice, PipelineCache>();

/** Compiles each kernel once a device. Compilations asked for together run in parallel. */
export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #kernels = new Map<string, Promise<CompiledKernel>>();

  private constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** The cache of `device`: who loads a second model on it compiles nothing again. */
  static of(device: GPUDevice): PipelineCache {
    let cache = caches.get(device);
    if (!cache) {
      cache = new PipelineCache(device);
      caches.set(device, cache);
    }
    return cache;
  }

  /** The pipeline of `code`, entry point `main`, whose group 0 has `bindings` in order. */
  compile(name: string, code: string, bindings: readonly BindingKind[]): Promise<CompiledKernel> {
    let kernel = this.#kernels.get(code);
    if (!kernel) {
      kernel = this.#compile(name, code, bindings);
      this.#kernels.set(code, kernel);
    }
    return kernel;
  }

  async #compile(name: string, code: string, bindings: readonly BindingKind[]): Promise<CompiledKernel> {
    // Explicit layouts: the variants of a kernel share bind groups, which 'auto' would tie to one pipeline.
    const layout = this.#layout(bindings);
    const immediate = bindings[0] === 'immediates';
    // Not in WebGPU's types yet.
    const pipelineLayout: GPUPipelineLayoutDescriptor & { immediateSize?: number } = {
      label: name,
      bindGroupLayouts: [layout],
      ...(immediate && { immediateSize: IMMEDIATE_BYTES }),
    };
    // The scope keeps a refused shader, which is reported below, from being an uncaptured error too.
    this.#device.pushErrorScope('validation');
    const module = this.#device.createShaderModule({ label: name, code });
    const scope = this.#device.popErrorScope();
    const start = performance.now();
    try {
      const pipeline = await this.#device.createComputePipelineAsync({
        label: name,
        layout: this.#device.createPipelineLayout(pipelineLayout),
        compute: { module, entryPoint: 'main' },
      });
      performance.measure('compile', { start, detail: name });
      return { pipeline, layout, immediate };
    } catch (error) {
      await scope.catch(() => {});
      const { messages } = await module.getCompilationInfo();
      const lines = messages.map((m) => `${m.lineNum}:${m.linePos} ${m.type}: ${m.message}`);
      throw new ShaderError(name, [(error as Error).message, ...lines].join('\n'));
    }
  }

  #layout(bindings: readonly BindingKind[]): GPUBindGroupLayout {
    const key = bindings.join();
    let layout = this.#layouts.get(key);
    if (!layout) {
      layout = this.#device.createBindGroupLayout({
        label: key,
        entries: bindings.flatMap((kind, binding) =>
          kind === 'immediates'
            ? []
            : [{ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: BUFFER_TYPES[kind] } }],
        ),
      });
      this.#layouts.set(key, layout);
    }
    return layout;
  }
}
