import type { NodeFacts } from '../node/messages.ts';
import { logEvent } from './node-log.ts';

/** What is new in facts; `told`: those of the same load that were told before. */
export function logFacts({ model, kernels }: NodeFacts, told: NodeFacts | undefined): void {
  if (told === undefined) logEvent(`Loaded ${model}`);
  const known = told?.kernels.failed ?? [];
  for (const { name, why } of kernels.failed.filter((failed) => !known.some(({ name }) => name === failed.name))) {
    logEvent(`Does without the kernel ${name}: ${why}`, 'warn');
  }
}
