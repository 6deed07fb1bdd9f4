import { Code, ConnectError } from '@connectrpc/connect';

/** A node said something that can't be true. Its session ends; the message says what, without ids or texts. */
export class Lie extends Error {
  override readonly name = 'Lie';
}

/** Why a session is over whose report could not be taken in, by what was thrown. */
export function faultOf(error: unknown): ConnectError {
  return error instanceof Lie
    ? new ConnectError(`The node told what can't be: ${error.message}.`, Code.InvalidArgument)
    : // Half-way through a report its jobs may be without tokens that count as told.
      new ConnectError('The relay could not take the report in.', Code.Internal, undefined, undefined, error);
}
