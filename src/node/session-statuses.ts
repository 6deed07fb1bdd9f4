import { Code } from '@connectrpc/connect';

/** Statuses of Attach after which trying again is of no use. */
export const REFUSALS: ReadonlySet<Code> = new Set([
  Code.FailedPrecondition,
  Code.InvalidArgument,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.Unimplemented,
]);
/** Statuses that say: the session that was named is no more. */
export const FENCED: ReadonlySet<Code> = new Set([Code.Aborted, Code.NotFound]);
