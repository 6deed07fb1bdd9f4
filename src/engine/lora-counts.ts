/** A LoRA adapter that requests may name. */
export interface LoadedLora {
  readonly id: string;
  /** Counts loads: another adapter of the same id has another version. */
  readonly version: number;
  /** The largest of its updates'. */
  readonly rank: number;
  /** Requests taken in since it was loaded. */
  readonly requests: number;
  /** Sequences that run or wait with it. */
  readonly sequences: number;
}

/** Counted values, at one moment. Each adapter that is loaded takes a slot. */
export interface LoraCounts {
  readonly slots: number;
  readonly adapters: readonly LoadedLora[];
}
