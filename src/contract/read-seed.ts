import type { JsonObject } from '@bufbuild/protobuf';
import { invalid, unserved } from './contract-error.ts';

/**
 * The seed in `custom_params.seed`, as the 64-bit key of the draws: the proto has no field of its own for it. A
 * negative seed wraps. A Struct's numbers are doubles, so it is at most 2⁵³ in size. Throws ContractError: for a value
 * that is no such integer, and for any other key.
 */
export function readSeed(params: JsonObject | undefined): bigint | undefined {
  if (!params) return undefined;
  const seed = Object.hasOwn(params, 'seed') ? params.seed : undefined;
  if (seed !== undefined && !Number.isSafeInteger(seed)) {
    throw invalid('custom_params.seed', 'must be an integer in [-(2^53 - 1), 2^53 - 1].');
  }
  for (const key of Object.keys(params)) {
    if (key !== 'seed') throw unserved(`custom_params.${/^\w{1,64}$/.test(key) ? key : '(another key)'}`);
  }
  return seed === undefined ? undefined : BigInt.asUintN(64, BigInt(seed as number));
}
