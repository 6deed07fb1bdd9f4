import { Code } from '@connectrpc/connect';

/** The statuses that a node may give a sample which it can't go on with. */
export const FAILURE_CODES = {
  invalid_argument: Code.InvalidArgument,
  resource_exhausted: Code.ResourceExhausted,
  unimplemented: Code.Unimplemented,
  internal: Code.Internal,
  unavailable: Code.Unavailable,
} as const;

export type FailureCode = keyof typeof FAILURE_CODES;
