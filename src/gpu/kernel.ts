import type { Gpu } from './gpu.ts';
import type { BindingKind, CompiledKernel } from './pipeline-cache.ts';

/** Workgroups that one dimension of a dispatch may have; more fold into y. */
const MAX_WORKGROUPS = 65_535;

/** Threads of a workgroup, but where a kernel says otherwise. */
export const WORKGROUP_THREADS = 64;

export interface KernelSource {
  readonly name: string;
  /** Files to put one after another; WGSL lets declarations come in any order. */
  readonly code: readonly string[];
  /** Optional features of WGSL that it enables; the device must have them. */
  readonly enables?: readonly string[];
  /** Numbers the code is made for, such as a head size; each becomes a `const` of type u32. */
  readonly constants?: Readonly<Record<string, number>>;
  readonly bindings: readonly BindingKind[];
  /** Threads of its workgroups that count in dispatchThreads; absent: WORKGROUP_THREADS. */
  readonly threads?: number;
}

/** A field of a kernel's uniform: an unsigned integer, or an f32. */
export type UniformField = number | { readonly f32: number };

/** A compiled compute kernel. */
export class Kernel {
  readonly name: string;
  readonly #gpu: Gpu;
  readonly #compiled: CompiledKernel;
  readonly #threads: number;

  private constructor(gpu: Gpu, name: string, compiled: CompiledKernel, threads: number) {
    this.#gpu = gpu;
    this.name = name;
    this.#compiled = compiled;
    this.#threads = threads;
  }

  static async compile(gpu: Gpu, source: KernelSource): Promise<Kernel> {
    const constants = Object.entries(source.constants ?? {});
    const name = [source.name, ...constants.map(([key, value]) => `${key}=${value}`)].join(' ');
    const header = constants.map(([key, value]) => `const ${key} = ${value}u;\n`);
    const enables = (source.enables ?? []).map((feature) => `enable ${feature};\n`);
    const code = [...enables, ...header, ...source.code].join('\n');
    const compiled = await gpu.pipelines.compile(name, code, source.bindings);
    return new Kernel(gpu, name, compiled, source.threads ?? WORKGROUP_THREADS);
  }

  /** Group 0: the uniform of `fields`, then `buffers`, or ranges from multiples of 256 bytes on, in the order of the kernel's bindings. */
  async bind(
    fields: readonly UniformField[],
    buffers: readonly (GPUBuffer | GPUBufferBinding)[],
  ): Promise<GPUBindGroup> {
    const words = new Uint32Array(Math.ceil(fields.length / 4) * 4);
    const floats = new Float32Array(words.buffer);
    fields.forEach((field, i) => {
      if (typeof field === 'number') words[i] = field;
      else floats[i] = field.f32;
    });
    const uniform = await this.#gpu.uniform(words);
    const { device } = this.#gpu;
    device.pushErrorScope('validation');
    const group = device.createBindGroup({
      label: this.name,
      layout: this.#compiled.layout,
      entries: [uniform, ...buffers].map((bound, binding) => ({
        binding,
        resource: 'buffer' in bound ? bound : { buffer: bound },
      })),
    });
    const error = await device.popErrorScope();
    if (error) throw new Error(`kernel ${this.name}: ${error.message}`);
    return group;
  }

  /** Runs at least `workgroups` workgroups; the kernel itself leaves out those past its count. */
  dispatch(pass: GPUComputePassEncoder, group: GPUBindGroup, workgroups: number): void {
    if (workgroups === 0) return;
    pass.setPipeline(this.#compiled.pipeline);
    pass.setBindGroup(0, group);
    const [x, y] = foldWorkgroups(workgroups);
    pass.dispatchWorkgroups(x, y);
  }

  /** Runs one thread for each of `threads`. */
  dispatchThreads(pass: GPUComputePassEncoder, group: GPUBindGroup, threads: number): void {
    this.dispatch(pass, group, Math.ceil(threads / this.#threads));
  }
}

/** The x and y of a dispatch of at least `workgroups` workgroups. */
export function foldWorkgroups(workgroups: number): [number, number] {
  const y = Math.ceil(workgroups / MAX_WORKGROUPS);
  return [Math.ceil(workgroups / y), y];
}
