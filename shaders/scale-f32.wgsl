// Scale and minimum of a block as they are.
alias ScaleWord = vec2<f32>;

fn scaleUnpack(word: ScaleWord) -> vec2<f32> {
  return word;
}
