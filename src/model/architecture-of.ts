import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import type { Architecture } from './architecture.ts';
import { LLAMA } from './architectures/llama.ts';

/** Decoders that are served, by family. */
const DECODERS: readonly Architecture[] = [LLAMA];

/** The architecture that a config names. Throws CheckpointError with the known ones where it names another. */
export function architectureOf(config: ModelConfig): Architecture {
  const found = DECODERS.find(({ names }) => config.architectures.some((name) => names.includes(name)));
  if (found) return found;
  const known = DECODERS.flatMap(({ names }) => names).sort();
  throw new CheckpointError(
    `config.json: architectures are ${config.architectures.join(', ')}; known: ${known.join(', ')}`,
  );
}
