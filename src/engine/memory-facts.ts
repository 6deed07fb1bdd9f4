/** Bytes of the GPU that a model will take, about. */
export interface MemoryEstimate {
  readonly weightBytes: number;
  /** Of conversations. */
  readonly kvBytes: number;
  /** Of what a step computes. */
  readonly scratchBytes: number;
}
