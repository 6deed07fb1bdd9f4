import { BLOCK_TOKENS } from './visible-blocks.ts';

/** K and V of one layer on the CPU, laid out as on the GPU: [blocks, 2 (k, v), kvHeads, 16 tokens, headSize]. */
export class KvPool {
  readonly values: Float32Array<ArrayBuffer>;
  readonly #kvHeads: number;
  readonly #headSize: number;

  constructor(blocks: number, kvHeads: number, headSize: number) {
    this.values = new Float32Array(blocks * 2 * kvHeads * BLOCK_TOKENS * headSize);
    this.#kvHeads = kvHeads;
    this.#headSize = headSize;
  }

  copyBlock(from: number, to: number): void {
    const size = 2 * this.#kvHeads * BLOCK_TOKENS * this.#headSize;
    this.values.copyWithin(to * size, from * size, (from + 1) * size);
  }

  fillBlock(block: number, value: number): void {
    const size = 2 * this.#kvHeads * BLOCK_TOKENS * this.#headSize;
    this.values.fill(value, block * size, (block + 1) * size);
  }

  /** A view of one head of the key or value at `position`, [headSize]. */
  at(what: 'key' | 'value', blockTable: ArrayLike<number>, position: number, kvHead: number): Float32Array {
    const block = blockTable[Math.floor(position / BLOCK_TOKENS)]!;
    if (!(block >= 0)) throw new RangeError(`position ${position} has no block`);
    const half = block * 2 + (what === 'value' ? 1 : 0);
    const at = ((half * this.#kvHeads + kvHead) * BLOCK_TOKENS + (position % BLOCK_TOKENS)) * this.#headSize;
    return this.values.subarray(at, at + this.#headSize);
  }
}
