/** What may follow a sequence's ids. */
export interface Draft {
  readonly ids: readonly number[];
  /** Ids at the sequence's end that came before what the draft repeats. */
  readonly match: number;
}

/** Guesses at what follows one sequence's ids, which only grow. */
export interface Drafter {
  /** At most `most` ids; undefined: there is nothing to go by. */
  draft(ids: readonly number[], most: number): Draft | undefined;
}

/** Ids at the end that are looked for, at most and at least. */
const LONGEST = 4;
const SHORTEST = 2;
/** Ids and nodes of the index are below it; two of them make an exact number. */
const BASE = 2 ** 26;

/**
 * Prompt lookup: what followed when the last ids came before, most of them (four, three, two) and the last time. Where that reaches
 * the end it goes on with itself. The index is a trie of the ids before each position, nearest first: a token adds one path.
 */
export class NgramDrafts implements Drafter {
  /** Node and id to node: the root is 0. */
  readonly #edges = new Map<number, number>();
  /** Of each node: the last position that its ids came before. */
  readonly #last: number[] = [0];
  #indexed = 1;

  draft(ids: readonly number[], most: number): Draft | undefined {
    for (; this.#indexed < ids.length; this.#indexed++) this.#add(ids, this.#indexed);
    let node: number | undefined = 0;
    let found: { readonly from: number; readonly match: number } | undefined;
    for (let n = 1; n <= LONGEST && n <= ids.length; n++) {
      node = this.#edges.get(node * BASE + ids[ids.length - n]!);
      if (node === undefined) break;
      if (n >= SHORTEST) found = { from: this.#last[node]!, match: n };
    }
    if (!found || most < 1) return undefined;
    const { from, match } = found;
    const drafted: number[] = [];
    for (let i = from; drafted.length < most; i++) {
      drafted.push(i < ids.length ? ids[i]! : drafted[i - ids.length]!);
    }
    return { ids: drafted, match };
  }

  /** The ids before `position`, which has one too. */
  #add(ids: readonly number[], position: number): void {
    let node = 0;
    for (let n = 1; n <= LONGEST && n <= position; n++) {
      const edge = node * BASE + ids[position - n]!;
      let next = this.#edges.get(edge);
      if (next === undefined) {
        next = this.#last.length;
        this.#edges.set(edge, next);
        this.#last.push(position);
      } else this.#last[next] = position;
      node = next;
    }
  }
}
