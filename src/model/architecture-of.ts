import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import type { Architecture } from './architecture.ts';
import { GEMMA2 } from './architectures/gemma2.ts';
import { GEMMA3 } from './architectures/gemma3.ts';
import { GPT2 } from './architectures/gpt2.ts';
import { GRANITE } from './architectures/granite.ts';
import { LLAMA } from './architectures/llama.ts';
import { MISTRAL } from './architectures/mistral.ts';
import { MIXTRAL } from './architectures/mixtral.ts';
import { OLMO2 } from './architectures/olmo2.ts';
import { PHI3 } from './architectures/phi3.ts';
import { QWEN2 } from './architectures/qwen2.ts';
import { QWEN3 } from './architectures/qwen3.ts';
import { QWEN3_MOE } from './architectures/qwen3-moe.ts';
import { SMOLLM3 } from './architectures/smollm3.ts';

/** Decoders that are served, by family. */
export const DECODERS: readonly Architecture[] = [
  GEMMA2,
  GEMMA3,
  GPT2,
  GRANITE,
  LLAMA,
  MISTRAL,
  MIXTRAL,
  OLMO2,
  PHI3,
  QWEN2,
  QWEN3,
  QWEN3_MOE,
  SMOLLM3,
];

/** The architecture that a config names. Throws CheckpointError with the known ones where it names another. */
export function architectureOf(config: ModelConfig): Architecture {
  const found = DECODERS.find(({ names }) => config.architectures.some((name) => names.includes(name)));
  if (found) return found;
  const known = DECODERS.flatMap(({ names }) => names).sort();
  throw new CheckpointError(
    `config.json: architectures are ${config.architectures.join(', ')}; known: ${known.join(', ')}`,
  );
}
