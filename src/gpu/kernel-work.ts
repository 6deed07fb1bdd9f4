/** What one dispatch of a kernel does at least; told where a bind group is made, asked for by who measures. */
export interface KernelWork {
  /** Which of several uses of one kernel it is, such as the shape of a matrix. */
  readonly what: string;
  /** Read once a dispatch, however many columns there are. */
  readonly bytes: number;
  /** Of one column. */
  readonly flops: number;
  /** What its columns are. */
  readonly columns: 'rows' | 'logits';
  /** The first of them. */
  readonly firstColumn: number;
}

const works = new WeakMap<GPUBindGroup, KernelWork>();

export function tellWork(group: GPUBindGroup, work: KernelWork): void {
  works.set(group, work);
}

/** Undefined: nobody told. */
export function workOf(group: GPUBindGroup): KernelWork | undefined {
  return works.get(group);
}
