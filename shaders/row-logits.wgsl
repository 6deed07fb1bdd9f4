// A row's strands, each its own chunk, of the logits themselves: a small vocabulary's, of one region. Part of
// row-stats.wgsl.

// Bits of the best logit of a chunk, and its weight.
fn chunkBest(chunk: u32) -> u32 {
  return rows[stateAt + ROW_STRANDS + chunk];
}

fn chunkWeight(chunk: u32) -> f32 {
  return bitcast<f32>(rows[stateAt + ROW_STRANDS + STRANDS + chunk]);
}

fn bestOfStrand(strand: u32) -> Strand {
  let end = endWordOf(strand, params.vocabulary);
  var highs = vec4<f32>(-FLOAT_MAX);
  var lows = vec4<f32>(FLOAT_MAX);
  var largest = vec4<u32>(0u);
  for (var word = firstWordOf(strand); word < end; word += STRANDS) {
    let bits = logitWord(words, word, params.vocabulary);
    let values = bitcast<vec4<f32>>(bits);
    highs = max(highs, values);
    lows = min(lows, select(values, vec4<f32>(FLOAT_MAX), bits == vec4<u32>(MASKED)));
    largest = max(largest, bits & vec4<u32>(0x7fffffffu));
  }
  let last = max(max(largest.x, largest.y), max(largest.z, largest.w));
  return Strand(
    max(max(highs.x, highs.y), max(highs.z, highs.w)),
    min(min(lows.x, lows.y), min(lows.z, lows.w)),
    u32(last >= 0x7f800000u),
  );
}

fn weightOfStrand(strand: u32) -> f32 {
  let end = endWordOf(strand, params.vocabulary);
  var sums = vec4<f32>(0.0);
  for (var word = firstWordOf(strand); word < end; word += STRANDS) {
    let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
    sums += exp2((max(values, vec4<f32>(weightless)) - vec4<f32>(high)) * scale);
  }
  return sumOf(sums);
}
