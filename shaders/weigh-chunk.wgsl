// The weight of a chunk's tokens before each of a row's draws, in the order (logit descending, id ascending). The kernel
// declares `rows` and, of its row, `stateAt`, `words`, `high`, `scale` and `weightless`.

fn drawnLogits() -> vec4<f32> {
  let draws = stateAt + ROW_DRAWS;
  return vec4<f32>(logitOf(draws), logitOf(draws + 2u), logitOf(draws + 4u), logitOf(draws + 6u));
}

fn drawnIds() -> vec4<u32> {
  let ids = stateAt + ROW_DRAWS + 1u;
  return vec4<u32>(rows[ids], rows[ids + 2u], rows[ids + 4u], rows[ids + 6u]);
}

// Of what is out of question, a logit that nothing is above.
fn logitOf(drawAt: u32) -> f32 {
  let key = rows[drawAt];
  return select(keyLogit(key), FLOAT_MAX, key == NONE);
}

fn weighChunk(chunk: u32, vocabulary: u32, drawn: vec4<f32>, ids: vec4<u32>) -> vec4<f32> {
  let end = endWordOf(chunk, vocabulary);
  var sums0: vec4<f32>;
  var sums1: vec4<f32>;
  var sums2: vec4<f32>;
  var sums3: vec4<f32>;
  var ties: vec4<f32>;
  for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
    // Ids past the end are masked.
    let values = bitcast<vec4<f32>>(logitWord(words, word, vocabulary));
    let weights = exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
    sums0 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.x));
    sums1 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.y));
    sums2 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.z));
    sums3 += select(vec4<f32>(0.0), weights, values > vec4<f32>(drawn.w));
    let tied = (values == vec4<f32>(drawn.x)) | (values == vec4<f32>(drawn.y)) | (values == vec4<f32>(drawn.z)) |
      (values == vec4<f32>(drawn.w));
    for (var some = any(tied); some; some = false) {
      for (var i = 0u; i < 4u; i++) {
        let before = (vec4<f32>(values[i]) == drawn) & (vec4<u32>(word * 4u + i) < ids);
        ties += select(vec4<f32>(0.0), vec4<f32>(weights[i]), before);
      }
    }
  }
  return vec4<f32>(sumOf(sums0), sumOf(sums1), sumOf(sums2), sumOf(sums3)) + ties;
}
