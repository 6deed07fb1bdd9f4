/** The longest piece whose merges are looked for: each of its cuts is looked up. */
export const MAX_PIECE_CHARACTERS = 256;

/** A piece of a SentencePiece model that may take part in merges. */
export interface Piece {
  readonly id: number;
  readonly score: number;
}

/**
 * The merges that make BPE of a SentencePiece model. SentencePiece merges the two neighbours whose joint piece has the
 * best score; so every cut of a piece in two pieces is a merge, better pieces first. Cuts of one piece never compete
 * for the same place; they are in the order of ids, as Hugging Face's converter has them.
 */
export function sentencePieceMerges(pieces: ReadonlyMap<string, Piece>): (readonly [string, string])[] {
  const merges: { readonly pair: readonly [string, string]; readonly score: number; readonly ids: [number, number] }[] =
    [];
  for (const [piece, { score }] of pieces) {
    const characters = Array.from(piece);
    let at = 0;
    for (let cut = 1; cut < characters.length; cut++) {
      at += characters[cut - 1]!.length;
      const pair = [piece.slice(0, at), piece.slice(at)] as const;
      const [left, right] = [pieces.get(pair[0]), pieces.get(pair[1])];
      if (left && right) merges.push({ pair, score, ids: [left.id, right.id] });
    }
  }
  return merges.sort((a, b) => b.score - a.score || a.ids[0] - b.ids[0] || a.ids[1] - b.ids[1]).map(({ pair }) => pair);
}
