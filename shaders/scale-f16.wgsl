// Scale and minimum of a block as two halves, the scale in the low bits; unpack2x16float needs no shader-f16.
// Subnormal halves never occur: a GPU may flush them, so src/gpu/weight-matrix.ts keeps such a matrix as scale-f32.wgsl.
alias ScaleWord = u32;

fn scaleUnpack(word: ScaleWord) -> vec2<f32> {
  return unpack2x16float(word);
}
