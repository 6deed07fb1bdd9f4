/** How much of the GPU's memory and time an engine may take. */
export interface EngineBudget {
  /** Bytes of the KV pool at most. */
  readonly kvBytes: number;
  /** Sequences running at once. */
  readonly maxRunning: number;
  /** Slots for LoRA adapters, and the ranks that their updates may have; absent: none. */
  readonly adapters?: { readonly most: number; readonly maxRank: number };
}
