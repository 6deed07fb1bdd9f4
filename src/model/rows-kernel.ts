/** What goes over the rows of a step, one kernel or several. */
export interface RowsKernel {
  encode(pass: GPUComputePassEncoder, rows: number): void;
}
