import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { ContractError, invalid } from '../contract/contract-error.ts';
import {
  type KvBlocksStored,
  KvBlocksStoredSchema,
  type KvCacheEvent,
  KvCacheEventSchema,
  type KvEventBatch,
  KvEventBatchSchema,
} from '../contract/gen/smg_common_pb.ts';
import { BLOCK_TOKENS, NO_BLOCK } from './block-hashes.ts';
import { KvSubscriber } from './kv-subscriber.ts';
import type { CachedBlock, PrefixIndex } from './prefix-index.ts';

/** Each has a queue of its own. */
const MAX_SUBSCRIBERS = 64;
/** Blocks told in one message: some 64 KiB. */
const BATCH_BLOCKS = 1_024;
const MAX_START = 2n ** 63n;

/**
 * Tells gateways which prefixes the fleet holds. A gateway knows one cache a worker, which the fleet is, and looks at no
 * rank: a block is told as removed once no rank has it. Each stream begins with "cleared" and all there is, whatever it
 * had been told before, and its numbers go on from where its reader was: so there is nothing to be kept for readers
 * that come back, and no gap. One that reads too slowly is told anew in the same way.
 */
export class KvEvents {
  private readonly index: PrefixIndex;
  private readonly queuedBlocks: number | undefined;
  private open = 0;

  /** `queuedBlocks` is how many may wait for a reader. */
  constructor(index: PrefixIndex, queuedBlocks?: number) {
    this.index = index;
    this.queuedBlocks = queuedBlocks;
  }

  /** The first batch has number `start` + 1. Throws ContractError before it. */
  async *subscribe(start: bigint, left: AbortSignal): AsyncGenerator<KvEventBatch> {
    if (start >= MAX_START) throw invalid('start_sequence_number', `must be below ${MAX_START}, got ${start}.`);
    if (this.open >= MAX_SUBSCRIBERS) {
      throw new ContractError(Code.ResourceExhausted, `${MAX_SUBSCRIBERS} streams of KV events are open already.`);
    }
    const subscriber = new KvSubscriber(this.queuedBlocks);
    this.open++;
    this.index.listeners.add(subscriber);
    let sequenceNumber = start;
    let eventId = 0n;
    const batch = (dpRank: number | undefined, events: readonly KvCacheEvent['data'][]) =>
      create(KvEventBatchSchema, {
        sequenceNumber: ++sequenceNumber,
        // For whoever reads it: a wall clock decides nothing here.
        timestamp: Date.now() / 1000,
        events: events.map((data) => create(KvCacheEventSchema, { eventId: ++eventId, data })),
        ...(dpRank === undefined ? {} : { dpRank }),
      });
    try {
      while (!left.aborted) {
        if (subscriber.behind) {
          const all = this.index.all.map(({ rank, cached }) => ({ rank, blocks: [...cached] }));
          subscriber.begin();
          yield batch(undefined, [{ case: 'cleared', value: { $typeName: 'smg.grpc.common.KvCacheCleared' } }]);
          for (const { rank, blocks } of all) {
            for (const part of parts(blocks)) yield batch(rank, storedEvents(part));
          }
        }
        for (const change of subscriber.take()) {
          if (change.type === 'stored') {
            for (const part of parts(change.blocks)) yield batch(change.rank, storedEvents(part));
          } else for (const part of parts(change.hashes)) yield batch(change.rank, [removedEvent(part)]);
        }
        if (!subscriber.behind && subscriber.empty) await subscriber.changed.wait(left);
      }
    } finally {
      this.index.listeners.delete(subscriber);
      this.open--;
    }
  }
}

function* parts<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += BATCH_BLOCKS) yield all.slice(from, from + BATCH_BLOCKS);
}

/** One event a chain. */
function storedEvents(blocks: readonly CachedBlock[]): KvCacheEvent['data'][] {
  const chains: KvBlocksStored[] = [];
  let last = NO_BLOCK;
  for (const { hash, above, ids } of blocks) {
    let chain = chains.at(-1);
    if (!chain || above !== last) {
      chain = create(KvBlocksStoredSchema, above === NO_BLOCK ? {} : { parentBlockHash: BigInt(above) });
      chains.push(chain);
    }
    chain.blocks.push({
      $typeName: 'smg.grpc.common.KvBlock',
      blockHash: BigInt(hash),
      tokenIds: [...ids],
      blockSize: BLOCK_TOKENS,
    });
    last = hash;
  }
  return chains.map((value) => ({ case: 'stored', value }));
}

function removedEvent(hashes: readonly number[]): KvCacheEvent['data'] {
  return {
    case: 'removed',
    value: { $typeName: 'smg.grpc.common.KvBlocksRemoved', blockHashes: hashes.map(BigInt) },
  };
}
