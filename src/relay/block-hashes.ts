import { randomBytes } from 'node:crypto';

/** Tokens of one KV block at every node. */
export const BLOCK_TOKENS = 16;

/** New at each start: who writes prompts can't aim at a hash. */
const SEED = [randomBytes(4).readInt32LE(), randomBytes(4).readInt32LE()] as const;

/** What a prompt without any block has. */
export const NO_BLOCK = 0;

/**
 * The hash of a block of tokens, `ids[from, from + 16)`, below the block whose hash is `above` (NO_BLOCK: none). In
 * [1, 2⁵³): two lanes of MurmurHash3's mixing (https://github.com/aappleby/smhasher). Two prefixes of one hash would be
 * one for the router, which costs a cache hit and nothing else.
 */
export function blockHash(above: number, ids: readonly number[], from: number): number {
  let low = SEED[0] ^ (above | 0);
  let high = SEED[1] ^ Math.floor(above / 2 ** 32);
  for (let at = from; at < from + BLOCK_TOKENS; at++) {
    const id = ids[at] as number;
    low = mix(low, id, 0xcc9e2d51, 15);
    high = mix(high ^ low, id, 0x1b873593, 17);
  }
  low = finish(low ^ high);
  high = finish(high + low);
  return ((high >>> 0) % 2 ** 21) * 2 ** 32 + (low >>> 0) || 1;
}

/** The hashes of a prompt's whole blocks, in order: two prompts have as many in common as they have blocks. */
export function blockHashes(ids: readonly number[]): readonly number[] {
  const hashes: number[] = [];
  let above = NO_BLOCK;
  for (let from = 0; from + BLOCK_TOKENS <= ids.length; from += BLOCK_TOKENS) {
    above = blockHash(above, ids, from);
    hashes.push(above);
  }
  return hashes;
}

function mix(lane: number, id: number, factor: number, turn: number): number {
  const k = Math.imul(rotate(Math.imul(id, factor), turn), 0x85ebca6b);
  return (Math.imul(rotate(lane ^ k, 13), 5) + 0xe6546b64) | 0;
}

function rotate(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by));
}

function finish(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
