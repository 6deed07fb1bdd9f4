import { type KernelFlags, PRECISIONS, SPECULATION_MODES, TUNE_MODES } from '../node/messages.ts';

/**
 * What the page's address says of kernels: `?tune=off|reset`, `?precision=fast`, `?kernel=NAME`, and of drafts: `?speculation=off`.
 * Throws RangeError naming what it can't be; a kernel's name is looked up where the kernels are.
 */
export function kernelFlags(search: string): KernelFlags {
  const params = new URLSearchParams(search);
  const oneOf = <T extends string>(name: string, values: readonly T[]): T => {
    const given = params.get(name) ?? values[0]!;
    const value = values.find((known) => known === given);
    if (value === undefined) throw new RangeError(`${name} is "${given}" in the address, not ${values.join(' or ')}`);
    return value;
  };
  const kernel = params.get('kernel') ?? undefined;
  const speculation = oneOf('speculation', SPECULATION_MODES);
  return { tune: oneOf('tune', TUNE_MODES), precision: oneOf('precision', PRECISIONS), kernel, speculation };
}

/** The address without what counts for one join only. */
export function withoutReset(search: string): string {
  const params = new URLSearchParams(search);
  if (params.get('tune') !== 'reset') return search;
  params.delete('tune');
  return params.size === 0 ? '' : `?${params}`;
}
