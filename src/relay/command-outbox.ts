import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type NodeCommand, NodeCommandSchema } from '../contract/gen/node_relay_pb.ts';
import { Lie } from './lie.ts';

/** The commands of one session, numbered from 1 without gaps, each kept until the node acknowledges it. */
export class CommandOutbox {
  private readonly kept: NodeCommand[] = [];
  private last = 0n;
  private acknowledged = 0n;

  /** Of the newest command; 0 before the first. */
  get lastSeq(): bigint {
    return this.last;
  }

  /** The newest that the node said it has. */
  get acknowledgedSeq(): bigint {
    return this.acknowledged;
  }

  get unacknowledged(): number {
    return this.kept.length;
  }

  /** Keeps a command; gives its number. */
  push(command: NonNullable<MessageInitShape<typeof NodeCommandSchema>['command']>): bigint {
    this.kept.push(create(NodeCommandSchema, { seq: ++this.last, required: true, command }));
    return this.last;
  }

  /** At most `most` kept commands after `seq`. Seqs have no gaps, so their place follows from their number. */
  after(seq: bigint, most = 1): readonly NodeCommand[] {
    const first = this.kept[0];
    if (!first) return [];
    const from = Math.max(0, Number(seq + 1n - first.seq));
    return this.kept.slice(from, from + most);
  }

  /** Drops commands up to `seq`. Throws Lie for a command that was never sent. */
  acknowledge(seq: bigint): void {
    if (seq > this.last) throw new Lie(`an acknowledgement of command ${seq}, where ${this.last} was the last`);
    if (seq > this.acknowledged) this.acknowledged = seq;
    const first = this.kept[0];
    if (first && seq >= first.seq) this.kept.splice(0, Number(seq - first.seq) + 1);
  }

  clear(): void {
    this.kept.length = 0;
  }
}
