// Scale and minimum of a block as two halves, the scale in the low bits. Subnormal halves, infinities and NaN never occur:
// src/gpu/weight-matrix.ts keeps such a matrix as scale-f32.wgsl. So a half is an f32 2^112 times too small once its
// exponent and fraction stand where an f32 has them, which takes a fraction of unpack2x16float's time where that is
// emulated, and no shader-f16.
alias ScaleWord = u32;

fn scaleUnpack(word: ScaleWord) -> vec2<f32> {
  let bits = (bitcast<vec2<i32>>(vec2<u32>(word << 16u, word)) >> vec2<u32>(3u)) & vec2<i32>(-0x70002000);
  return bitcast<vec2<f32>>(bits) * 0x1p112;
}
