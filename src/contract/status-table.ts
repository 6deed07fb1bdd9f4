import { Code } from '@connectrpc/connect';

/** HTTP status of each gRPC status, as the second gateway generation maps them. */
const httpOfCode: Readonly<Record<Code, number>> = {
  [Code.Canceled]: 499,
  [Code.Unknown]: 500,
  [Code.InvalidArgument]: 400,
  [Code.DeadlineExceeded]: 504,
  [Code.NotFound]: 404,
  [Code.AlreadyExists]: 409,
  [Code.PermissionDenied]: 403,
  [Code.ResourceExhausted]: 429,
  [Code.FailedPrecondition]: 400,
  [Code.Aborted]: 409,
  [Code.OutOfRange]: 400,
  [Code.Unimplemented]: 501,
  [Code.Internal]: 500,
  [Code.Unavailable]: 503,
  [Code.DataLoss]: 500,
  [Code.Unauthenticated]: 401,
};

/** The HTTP status that goes into `GenerateError.http_status_code`; 500 for a number that is no gRPC status. */
export function httpStatusOf(code: Code): number {
  return httpOfCode[code] ?? 500;
}
