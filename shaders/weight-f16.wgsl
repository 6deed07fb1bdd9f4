// Four halves in 8 bytes, the first in the low bits; unpack2x16float needs no shader-f16.
alias WeightWord = vec2<u32>;

fn weightUnpack(word: WeightWord) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(word.x), unpack2x16float(word.y));
}
