// A tile's logits, four at a time, where the vocabulary is a multiple of four; logit-words-any.wgsl is for the rest.
//
//   logits  [tile rows, vocabulary] f32, seen as u32: a shader may assume that an f32 is no NaN
@group(0) @binding(2) var<storage, read> logits: array<vec4<u32>>;

// Where a row's words begin.
fn wordsOf(row: u32, vocabulary: u32) -> u32 {
  return row * (vocabulary / 4u);
}

// Bits of the logits of ids 4 word … 4 word + 3.
fn logitWord(wordsAt: u32, word: u32, vocabulary: u32) -> vec4<u32> {
  return logits[wordsAt + word];
}
