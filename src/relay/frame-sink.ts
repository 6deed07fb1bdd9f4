import { type ContextKey, createContextKey } from '@connectrpc/connect';

/**
 * Where a call's messages go as frames of bytes, past Connect: its chain of async iterators takes some ten promises a
 * message. Connect still reads the request, keeps the deadline and ends the stream with its status.
 */
export interface FrameSink {
  /** False: nothing more may be written until `drained`. */
  write(frames: Uint8Array): boolean;
  /** Settles once more may be written. False: the client has gone, or didn't read for too long and was cut off. */
  drained(): Promise<boolean>;
}

/** Undefined where the call's messages go through Connect. */
export const frameSinkKey: ContextKey<FrameSink | undefined> = createContextKey<FrameSink | undefined>(undefined, {
  description: 'where frames go',
});
