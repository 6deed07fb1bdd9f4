import { CheckpointError } from '../checkpoint/checkpoint.ts';

/** Tensors that the error names. */
const MOST_NAMED = 5;

/** Throws CheckpointError with the names of `unused` tensors of the file `name`, where there are any. */
export function refuseUnused(name: string, architecture: string, unused: readonly string[]): void {
  if (unused.length === 0) return;
  const named = unused.slice(0, MOST_NAMED).join(', ');
  const more = unused.length > MOST_NAMED ? ` and ${unused.length - MOST_NAMED} more` : '';
  throw new CheckpointError(`${name}: ${architecture} of this config has no tensors ${named}${more}`);
}
