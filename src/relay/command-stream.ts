import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { type NodeCommand, NodeCommandSchema } from '../contract/gen/node_relay_pb.ts';
import type { CommandOutbox } from './command-outbox.ts';
import type { Signal } from './signal.ts';

/** The session that a stream of commands belongs to. */
export interface StreamSource {
  readonly outbox: CommandOutbox;
  /** Of the newest Attach. */
  readonly sessionEpoch: bigint;
  /** Why the session is over. */
  readonly ended: ConnectError | undefined;
  /** Notified when any of these changes. */
  readonly woken: Signal;
}

/** What one Attach asked for. */
export interface StreamOpening {
  readonly epoch: bigint;
  readonly welcome: NodeCommand;
  /** Seq of the last command that the node has seen. */
  readonly lastSeen: bigint;
  readonly heartbeatMs: number;
}

/** Commands that go out together. */
const MOST_TOGETHER = 64;

/**
 * The commands of one Attach: welcome, then whatever the node has not seen, then commands as they come, and pings; those that
 * are there together come together, one at least. Ends with the signal; throws ConnectError when the session is over or a newer Attach fences this one.
 */
export async function* streamCommands(
  source: StreamSource,
  { epoch, welcome, lastSeen, heartbeatMs }: StreamOpening,
  signal: AbortSignal,
): AsyncGenerator<readonly NodeCommand[]> {
  let cursor = lastSeen;
  let pingDue = false;
  const ping = setInterval(() => {
    pingDue = true;
    source.woken.notify();
  }, heartbeatMs);
  try {
    yield [welcome];
    while (!signal.aborted) {
      if (source.ended) throw source.ended;
      if (source.sessionEpoch !== epoch) {
        throw new ConnectError('A newer Attach took this session over.', Code.Aborted);
      }
      const next = source.outbox.after(cursor, MOST_TOGETHER);
      const last = next.at(-1);
      if (last) {
        cursor = last.seq;
        yield next;
      } else if (pingDue) {
        pingDue = false;
        yield [create(NodeCommandSchema, { command: { case: 'ping', value: {} } })];
      } else await source.woken.wait(signal);
    }
  } finally {
    clearInterval(ping);
  }
}
