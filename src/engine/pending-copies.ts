import { type BlockCopy, NO_BLOCK } from '../model/runner.ts';
import type { SequenceKv } from './sequence-kv.ts';

/** A block of each KV group. */
type Blocks = readonly number[];

interface PendingCopy {
  readonly from: Blocks;
  readonly to: Blocks;
  /** The running sequence whose block is copied; undefined: a cached one. */
  readonly source: SequenceKv | undefined;
  /** The source's block is gone before the copy was made: the target has its whole blocks only. */
  readonly onCancel: () => void;
}

/** The copies of blocks that the step being planned will make. */
export class PendingCopies {
  #copies: PendingCopy[] = [];

  /** What is lent may itself be still to be copied: then it is copied from where that comes. */
  add(lent: Blocks, to: Blocks, lender: SequenceKv | undefined, onCancel: () => void): void {
    const { from, source } = this.#copies.find((copy) => copy.to[0] === lent[0]) ?? { from: lent, source: lender };
    this.#copies.push({ from, to, source, onCancel });
  }

  /** Whether a copy reads `block` of a group. */
  reads(group: number, block: number): boolean {
    return this.#copies.some(({ from }) => from[group] === block);
  }

  /** Whether a block of the first group is still to be filled by a copy. */
  fills(block: number | undefined): boolean {
    return block !== undefined && block !== NO_BLOCK && this.#copies.some(({ to }) => to[0] === block);
  }

  /** Copies to a sequence that ends are of no use, copies from it can't be made any more. `own`: of the first group. */
  forget(kv: SequenceKv, own: readonly number[]): void {
    const gone = ({ source }: PendingCopy) => source === kv;
    for (const copy of this.#copies) if (gone(copy)) copy.onCancel();
    this.#copies = this.#copies.filter((copy) => !gone(copy) && !own.includes(copy.to[0]!));
  }

  take(): BlockCopy[] {
    const copies = this.#copies.map(({ from, to }): BlockCopy => {
      const [first, ...others] = to.map((block, g) => ({ from: from[g]!, to: block }));
      return others.length === 0 ? first! : { ...first!, more: others };
    });
    this.#copies = [];
    return copies;
  }
}
