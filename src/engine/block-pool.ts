/** Hands out the blocks of the KV pool. */
export class BlockPool {
  readonly size: number;
  /** Free ids; the last is taken first, so that a warm block is used again. */
  readonly #free: number[];
  readonly #taken: Uint8Array;

  constructor(size: number) {
    this.size = size;
    this.#free = Array.from({ length: size }, (_, i) => size - 1 - i);
    this.#taken = new Uint8Array(size);
  }

  get free(): number {
    return this.#free.length;
  }

  get freeBlocks(): readonly number[] {
    return this.#free;
  }

  /** `count` blocks, or undefined (and none taken) where fewer are free. */
  allocate(count: number): number[] | undefined {
    if (count > this.#free.length) return undefined;
    const blocks = this.#free.splice(this.#free.length - count, count).reverse();
    for (const block of blocks) this.#taken[block] = 1;
    return blocks;
  }

  /** Gives blocks back. Throws on a block that isn't taken: freeing twice would hand it to two sequences. */
  release(blocks: readonly number[]): void {
    for (const block of blocks) {
      if (this.#taken[block] !== 1) throw new Error(`KV block ${block} is given back but not taken`);
      this.#taken[block] = 0;
      this.#free.push(block);
    }
  }
}
