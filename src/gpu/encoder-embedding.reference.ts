/** Tables [rows, columns] of an encoder's embedding. */
export interface EncoderTables {
  readonly words: Float32Array;
  readonly types: Float32Array;
  readonly positions: Float32Array;
}

/** (words[id] + types[type]) + positions[position], [columns], each sum rounded to f32. */
export function encoderEmbeddingReference(
  { words, types, positions }: EncoderTables,
  columns: number,
  { id, position, type }: { readonly id: number; readonly position: number; readonly type: number },
): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: columns }, (_, i) =>
    Math.fround(
      Math.fround(words[id * columns + i]! + types[type * columns + i]!) + positions[position * columns + i]!,
    ),
  );
}
