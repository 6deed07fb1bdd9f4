import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { liesBesideEncoder } from '../checkpoint/unread-tensors.ts';
import type { EncoderConfig } from './encoder-config.ts';
import type { EncoderNames } from './encoder-names.ts';
import { refuseUnused } from './refuse-unused.ts';

/**
 * Throws CheckpointError with the names of the tensors that nothing asks for: what another model, or an adapter, has of its
 * own would run wrong without.
 */
export function checkUnused(checkpoint: Checkpoint, names: EncoderNames, config: EncoderConfig): void {
  const layers = Array.from({ length: config.layers }, (_, index) => names.layer(index));
  const wanted = new Set(namesIn([names, layers]));
  const unused = [...checkpoint.tensors.keys()].filter((name) => !wanted.has(name) && !liesBesideEncoder(name));
  refuseUnused(checkpoint.name, config.architecture, unused);
}

function namesIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(namesIn) : [];
}
