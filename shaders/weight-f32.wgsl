// Four weights in 16 bytes.
alias WeightWord = vec4<f32>;

fn weightUnpack(word: WeightWord) -> vec4<f32> {
  return word;
}
