import { Code, ConnectError } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';

/** The error as Connect sends it. What is neither's own is our fault: INTERNAL, without its text. */
export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof ContractError) return new ConnectError(error.message, error.code);
  return new ConnectError('internal error', Code.Internal, undefined, undefined, error);
}
