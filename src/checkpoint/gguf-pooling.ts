import type { GgufKeys } from './gguf-keys.ts';
import type { PoolingKind } from './sentence-transformers.ts';

/** By GGUF's numbers (https://github.com/ggml-org/llama.cpp, llama.h: llama_pooling_type). */
const KINDS: Readonly<Record<number, PoolingKind>> = { 1: 'mean', 2: 'cls', 3: 'last' };

/**
 * How hidden states become a vector; undefined where the file says that they don't, or nothing. Throws CheckpointError naming
 * the key for what is none of `served`.
 */
export function ggufPooling(keys: GgufKeys, served: readonly PoolingKind[]): PoolingKind | undefined {
  const type = keys.count('pooling_type') ?? 0;
  if (type === 0) return undefined;
  const kind = KINDS[type];
  if (kind !== undefined && served.includes(kind)) return kind;
  const known = Object.entries(KINDS).filter(([, each]) => served.includes(each));
  const said = kind ?? (type === 4 ? 'a ranker’s' : 'unknown');
  return keys.fail(
    'pooling_type',
    `is ${type} (${said}); here ${known.map(([number, each]) => `${number} (${each})`).join(', ')} or none is served`,
  );
}
