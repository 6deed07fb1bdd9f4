import { BLOCK_TOKENS } from '../model/runner.ts';
import type { CacheNode } from './cache-node.ts';

/** What changed in a prefix cache, by the numbers of its blocks of tokens. */
export type CacheNews =
  /** Whole blocks, the first below `parent`, each other below the one before it. */
  | {
      readonly type: 'stored';
      /** Undefined where they begin a prompt. */
      readonly parent: number | undefined;
      readonly blocks: readonly number[];
      /** [blocks × BLOCK_TOKENS] */
      readonly ids: readonly number[];
    }
  | { readonly type: 'removed'; readonly blocks: readonly number[] }
  | { readonly type: 'cleared' };

/**
 * The changes of a prefix cache that are still to be told to the relay. A block that came and went in between is none,
 * so that it holds at most two entries a block. Silent until it is first asked to begin.
 */
export class CacheLog {
  /** By block, parents first. */
  readonly #stored = new Map<number, CacheNode>();
  readonly #removed = new Set<number>();
  #on = false;

  get empty(): boolean {
    return this.#stored.size === 0 && this.#removed.size === 0;
  }

  /** Tells everything anew, to one who knows nothing. `nodes` are all there are, parents before children. */
  begin(nodes: Iterable<CacheNode>): void {
    this.#on = true;
    this.#stored.clear();
    this.#removed.clear();
    for (const node of nodes) this.stored(node);
  }

  stored(node: CacheNode): void {
    if (this.#tells(node)) this.#stored.set(node.id, node);
  }

  removed(node: CacheNode): void {
    if (this.#tells(node) && !this.#stored.delete(node.id)) this.#removed.add(node.id);
  }

  #tells({ told, tokens }: CacheNode): boolean {
    return this.#on && told && tokens.length === BLOCK_TOKENS;
  }

  /** News of at most `most` blocks, the oldest first; none where there are none. `blocks` are those cached now. */
  take(most: number, blocks: number): CacheNews[] {
    const news: CacheNews[] = [];
    if (blocks === 0 && this.#removed.size > 0) {
      this.#removed.clear();
      return [{ type: 'cleared' }];
    }
    const removed = first(this.#removed, most);
    if (removed.length > 0) news.push({ type: 'removed', blocks: removed });
    for (const block of removed) this.#removed.delete(block);
    // A number that was given back may be among those stored since.
    if (this.#removed.size === 0) this.#takeStored(news, most - removed.length);
    return news;
  }

  #takeStored(news: CacheNews[], most: number): void {
    let run: { parent: number | undefined; blocks: number[]; ids: number[] } | undefined;
    for (const [block, node] of first(this.#stored, most)) {
      const above = node.parent!.id;
      if (!run || run.blocks.at(-1) !== above) {
        run = { parent: above < 0 ? undefined : above, blocks: [], ids: [] };
        news.push({ type: 'stored', ...run });
      }
      run.blocks.push(block);
      run.ids.push(...node.tokens);
      this.#stored.delete(block);
    }
  }
}

function first<T>(all: Iterable<T>, most: number): T[] {
  const some: T[] = [];
  for (const one of all) {
    if (some.length >= most) break;
    some.push(one);
  }
  return some;
}
