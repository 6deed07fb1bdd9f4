import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { bert } from './architectures/bert.ts';
import { xlmRoberta } from './architectures/xlm-roberta.ts';
import type { EncoderArchitecture } from './encoder-names.ts';

/** All that are known. */
export const ENCODERS: readonly EncoderArchitecture[] = [bert, xlmRoberta];

/** The encoder that a config.json names; undefined: none of those known, perhaps a decoder. */
export function findEncoder({ architectures }: ModelConfig): EncoderArchitecture | undefined {
  return ENCODERS.find(({ names }) => names.some((name) => architectures.includes(name)));
}

/** Throws CheckpointError with the list of known ones. */
export function encoderOf(config: ModelConfig): EncoderArchitecture {
  const found = findEncoder(config);
  if (found) return found;
  const known = ENCODERS.flatMap(({ names }) => names);
  throw new CheckpointError(
    `config.json: architectures are ${config.architectures.join(', ')}; encoders that are served are ${known.join(', ')}`,
  );
}
