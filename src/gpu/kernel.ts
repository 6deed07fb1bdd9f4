import type { Gpu } from './gpu.ts';
import type { BindingKind, CompiledKernel } from './pipeline-cache.ts';

/** Workgroups that one dimension of a dispatch may have; more fold into y. */
const MAX_WORKGROUPS = 65_535;

/** Threads of a workgroup, but where a kernel says otherwise. */
const WORKGROUP_THREADS = 64;

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

/** How every kernel with parameters declares them: `requires` and another address space make immediates of them. */
const UNIFORM = '@group(0) @binding(0) var<uniform> params: Params;';
const IMMEDIATE = 'var<immediate> params: Params;';
/** Fields that devices have room for as immediates: 64 bytes. */
const MOST_IMMEDIATES = 16;

/** Parameters of the bind groups of kernels that take them as immediates: variants of a kernel share groups. */
const immediates = new WeakMap<GPUBindGroup, Uint32Array<ArrayBuffer>>();

/** Sets all immediates of the pipeline that is set. Not in WebGPU's types yet. */
export function setImmediates(pass: GPUComputePassEncoder, data: Uint32Array<ArrayBuffer>): void {
  (pass as unknown as { setImmediates(offset: number, data: Uint32Array<ArrayBuffer>): void }).setImmediates(0, data);
}

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
    const immediate = gpu.immediates && code.includes(UNIFORM) && countFields(code) <= MOST_IMMEDIATES;
    const compiled = immediate
      ? await gpu.pipelines.compile(name, withImmediates(code), ['immediates', ...source.bindings.slice(1)])
      : await gpu.pipelines.compile(name, code, source.bindings);
    return new Kernel(gpu, name, compiled, source.threads ?? WORKGROUP_THREADS);
  }

  /**
   * Group 0: the uniform of `fields`, then `buffers`, or ranges from multiples of 256 bytes on, in the order of the
   * kernel's bindings. Of kernels with immediates, `fields` are kept and set with each dispatch.
   */
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
    const { device } = this.#gpu;
    const bound = buffers.map((range, i) => ({
      binding: i + 1,
      resource: 'buffer' in range ? range : { buffer: range },
    }));
    const { immediate } = this.#compiled;
    if (!immediate) bound.unshift({ binding: 0, resource: { buffer: await this.#gpu.uniform(words) } });
    device.pushErrorScope('validation');
    const group = device.createBindGroup({
      label: this.name,
      layout: this.#compiled.layout,
      entries: bound,
    });
    const error = await device.popErrorScope();
    if (error) throw new Error(`kernel ${this.name}: ${error.message}`);
    if (immediate) immediates.set(group, words);
    return group;
  }

  /** Runs at least `workgroups` workgroups; the kernel itself leaves out those past its count. */
  dispatch(pass: GPUComputePassEncoder, group: GPUBindGroup, workgroups: number): void {
    if (workgroups === 0) return;
    pass.setPipeline(this.#compiled.pipeline);
    pass.setBindGroup(0, group);
    if (this.#compiled.immediate) setImmediates(pass, immediates.get(group)!);
    const [x, y] = foldWorkgroups(workgroups);
    pass.dispatchWorkgroups(x, y);
  }

  /** Runs one thread for each of `threads`. */
  dispatchThreads(pass: GPUComputePassEncoder, group: GPUBindGroup, threads: number): void {
    this.dispatch(pass, group, Math.ceil(threads / this.#threads));
  }
}

/** Fields of the kernel's parameters, each of four bytes. */
function countFields(code: string): number {
  const [, fields = ''] = /struct Params \{([^}]*)\}/.exec(code) ?? [];
  return [...fields.matchAll(/^\s*\w+: [uif]32,/gm)].length;
}

function withImmediates(code: string): string {
  return `requires immediate_address_space;\n${code.replace(UNIFORM, IMMEDIATE)}`;
}

/** The x and y of a dispatch of at least `workgroups` workgroups. */
function foldWorkgroups(workgroups: number): [number, number] {
  const y = Math.ceil(workgroups / MAX_WORKGROUPS);
  return [Math.ceil(workgroups / y), y];
}
