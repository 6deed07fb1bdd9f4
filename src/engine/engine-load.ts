import type { LoraCounts } from './lora-counts.ts';
import type { SpeculationCounts } from './speculation.ts';

/** Counted values of an engine, at one moment. */
export interface EngineLoad {
  readonly running: number;
  readonly waiting: number;
  /** Of those waiting: they ran, and others needed their blocks. */
  readonly retracted: number;
  /** KV slots neither free nor evictable, and those there are. */
  readonly usedTokens: number;
  readonly maxTokens: number;
  /** KV slots that hold a prefix, in use or not. */
  readonly cachedTokens: number;
  /** Share of prompt tokens found in the prefix cache, of the prompts started last; undefined before the first. */
  readonly cacheHitRate: number | undefined;
  /** Drafts since the start; undefined: there was none. */
  readonly speculation: SpeculationCounts | undefined;
  /** Tokens of waiting sequences that no cached prefix covers. */
  readonly waitingUncachedTokens: number;
  readonly maxRunning: number;
  /** Output tokens a second over the last five. */
  readonly genThroughput: number;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** All live GPU buffers. */
  readonly gpuBytes: number;
  /** Requests that were taken in since the start. */
  readonly requestsTaken: number;
  /** Output tokens since the start. */
  readonly tokensMade: number;
  /** Undefined where no LoRA adapters are served. */
  readonly lora: LoraCounts | undefined;
}
