import { expect } from 'vitest';
import type { KvEventBatch } from '../../contract/gen/smg_common_pb.ts';

/** What a gateway believes of a worker's cache, by its own rules: no gap in the numbers, blocks by hash, chains by parent. */
export class KvPicture {
  /** Ids of a block and all before it, by block hash. */
  readonly held = new Map<bigint, readonly number[]>();
  lastSeq: bigint;
  lastEvent = 0n;

  constructor(start = 0n) {
    this.lastSeq = start;
  }

  take({ sequenceNumber, events }: KvEventBatch): void {
    expect(sequenceNumber).toBe(this.lastSeq + 1n);
    this.lastSeq = sequenceNumber;
    for (const { eventId, data } of events) {
      expect(eventId).toBeGreaterThan(this.lastEvent);
      this.lastEvent = eventId;
      if (data.case === 'cleared') this.held.clear();
      else if (data.case === 'removed') {
        for (const hash of data.value.blockHashes) {
          if (!this.held.delete(hash)) throw new Error('a block is removed that was not there');
        }
      } else if (data.case === 'stored') {
        const { parentBlockHash, blocks } = data.value;
        let above = parentBlockHash === undefined ? [] : this.held.get(parentBlockHash);
        if (!above) throw new Error('a block is stored below one that is not there');
        for (const { blockHash, tokenIds, blockSize } of blocks) {
          expect(tokenIds).toHaveLength(blockSize);
          above = [...above, ...tokenIds];
          this.held.set(blockHash, above);
        }
      }
    }
  }

  /** Every prefix that is cached, each a line of ids. */
  get prefixes(): string[] {
    return [...this.held.values()].map((ids) => ids.join()).sort();
  }
}
