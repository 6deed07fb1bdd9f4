// Four bfloat16 in 8 bytes, the first in the low bits: each is the upper half of an f32.
alias WeightWord = vec2<u32>;

fn weightUnpack(word: WeightWord) -> vec4<f32> {
  return bitcast<vec4<f32>>(vec4<u32>(word.x << 16u, word.x & 0xffff0000u, word.y << 16u, word.y & 0xffff0000u));
}
