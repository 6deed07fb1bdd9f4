import type { IncomingMessage } from 'node:http';
import { Code, ConnectError } from '@connectrpc/connect';
import { CHUNK_BYTES } from './guard-body.ts';
import type { ReceivingBudget } from './receiving-budget.ts';

/** What the bytes of a body are counted by while they are held. */
export type ByteBudget = Pick<ReceivingBudget, 'take' | 'release'>;

/**
 * A body of at most `length` bytes, in one piece, within `receiveMs`. Resolves with undefined where who asks has gone; rejects with
 * ConnectError.
 */
export function gatherBody(
  request: IncomingMessage,
  length: number,
  budget: ByteBudget,
  receiveMs: number,
): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    let held = 0;
    const settle = (done: () => void) => {
      clearTimeout(timer);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      budget.release(held);
      held = 0;
      done();
    };
    const onData = (chunk: Uint8Array) => {
      try {
        const cost = chunk.byteLength + CHUNK_BYTES;
        budget.take(cost);
        held += cost;
        bytes += chunk.byteLength;
        if (bytes > length) throw new ConnectError('The body is longer than it was told.', Code.InvalidArgument);
        chunks.push(chunk);
      } catch (error) {
        settle(() => reject(error));
        request.pause();
      }
    };
    const onEnd = () => {
      settle(() => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    };
    const onClose = () => settle(() => resolve(undefined));
    const timer = setTimeout(() => {
      settle(() => reject(new ConnectError('The request took too long to arrive.', Code.DeadlineExceeded)));
      request.pause();
    }, receiveMs);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}
