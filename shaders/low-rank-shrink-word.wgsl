// Four j of one split of a row: sum over split s of k of A[adapter][j, k] * input[r, k], in order of k.
//
// What low-rank-shrink.wgsl and low-rank-row.wgsl share, so that both give the same bits; they tell of the names.

// What norm-factor.wgsl has, of squares that are read by fours: it has them as numbers, since linear.wgsl writes them too.
fn normFactor(row: u32) -> f32 {
  var sums = vec4<f32>();
  for (var word = 0u; word < params.squaresWords; word++) {
    sums += squares[row * params.squaresWords + word];
  }
  let sum = (sums.x + sums.y) + (sums.z + sums.w);
  return 1.0 / sqrt(sum / f32(params.normColumns) + params.epsilon);
}

// Whether adapter `adapter`, from 1 on, has any of word j's four.
fn hasRanks(adapter: u32, j: u32) -> bool {
  return j % params.maxRankWords * 4u < counts[(adapter - 1u) * params.modules + j / params.maxRankWords];
}

fn shrinkWord(row: u32, adapter: u32, split: u32, j: u32) -> vec4<f32> {
  let ranks = params.modules * params.maxRankWords;
  let first = split * params.splitWords;
  let end = min(first + params.splitWords, params.words);
  var sums = vec4<f32>();
  var at = ((adapter - 1u) * params.words + first) * 4u * ranks + j;
  for (var word = first; word < end; word++) {
    let x = input[row * params.words + word];
    sums = fma(a[at], vec4<f32>(x.x), sums);
    sums = fma(a[at + ranks], vec4<f32>(x.y), sums);
    sums = fma(a[at + 2u * ranks], vec4<f32>(x.z), sums);
    sums = fma(a[at + 3u * ranks], vec4<f32>(x.w), sums);
    at += 4u * ranks;
  }
  return sums;
}
