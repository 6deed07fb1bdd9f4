/**
 * Which row of the position embedding each id takes: its place, or with `pad` that id and one for each other id up to it,
 * and the id `pad` itself takes its own (RoBERTa's, whatever stands there).
 */
export function encoderPositions(ids: ArrayLike<number>, pad: number | undefined): Uint32Array {
  const positions = new Uint32Array(ids.length);
  let counted = 0;
  for (let i = 0; i < ids.length; i++) {
    if (pad === undefined) positions[i] = i;
    else positions[i] = ids[i] === pad ? pad : pad + ++counted;
  }
  return positions;
}
