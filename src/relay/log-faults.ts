import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';
import type { Logger } from 'pino';

/**
 * Logs what clients are told as an internal error only: Connect keeps its cause to itself. Nobody is told anything where
 * the client has left, and what breaks off then is no fault: a gateway that goes may leave a thousand streams.
 */
export function logFaults(log: Logger): Interceptor {
  const report = (error: unknown, rpc: string, signal: AbortSignal) => {
    if (error instanceof ConnectError && error.code !== Code.Internal) return;
    const err = error instanceof ConnectError ? (error.cause ?? error) : error;
    if (signal.aborted && err === signal.reason) return;
    log.error({ err, rpc }, 'rpc failed');
  };
  return (next) => async (request) => {
    const rpc = request.method.name;
    try {
      const response = await next(request);
      if (!response.stream) return response;
      return { ...response, message: watch(response.message, (error) => report(error, rpc, request.signal)) };
    } catch (error) {
      report(error, rpc, request.signal);
      throw error;
    }
  };
}

/** The same iteration, its errors told on the way. */
async function* watch<T>(messages: AsyncIterable<T>, onError: (error: unknown) => void): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    onError(error);
    throw error;
  }
}
