/** How much of the GPU's memory and time an engine may take. */
export interface EngineBudget {
  /** Bytes of the KV pool at most. */
  readonly kvBytes: number;
  /** Sequences running at once. */
  readonly maxRunning: number;
}
