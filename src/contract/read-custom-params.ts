import type { JsonObject } from '@bufbuild/protobuf';
import { invalid, unserved } from './contract-error.ts';

const MIN_INT32 = -(2 ** 31);
const MAX_INT32 = 2 ** 31 - 1;

/** What clients say in `custom_params`, since the proto has no fields of its own for it. */
export interface CustomParams {
  /** The 64-bit key of the draws. A negative seed wraps. A Struct's numbers are doubles: it is at most 2⁵³ in size. */
  readonly seed: bigint | undefined;
  /** Higher ones first; 0 where none was given. */
  readonly priority: number;
}

/**
 * Reads `custom_params.seed` and `custom_params.priority`. Throws ContractError: for a value that is no such integer,
 * for a priority where priorities change nothing, and for any other key.
 */
export function readCustomParams(params: JsonObject | undefined, servesPriority: boolean): CustomParams {
  const seed = integerOf(params, 'seed', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, '[-(2^53 - 1), 2^53 - 1]');
  const priority = integerOf(params, 'priority', MIN_INT32, MAX_INT32, '[-2^31, 2^31 - 1]') ?? 0;
  for (const key of Object.keys(params ?? {})) {
    if (key === 'seed' || key === 'priority') continue;
    throw unserved(`custom_params.${/^\w{1,64}$/.test(key) ? key : '(another key)'}`);
  }
  if (priority !== 0 && !servesPriority) {
    throw unserved('custom_params.priority', 'is served only by a relay that runs with --schedule-policy priority.');
  }
  return { seed: seed === undefined ? undefined : BigInt.asUintN(64, BigInt(seed)), priority };
}

function integerOf(
  params: JsonObject | undefined,
  key: string,
  least: number,
  most: number,
  range: string,
): number | undefined {
  const value = params && Object.hasOwn(params, key) ? params[key] : undefined;
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
    throw invalid(`custom_params.${key}`, `must be an integer in ${range}.`);
  }
  // −0 is 0.
  return value + 0;
}
