// Of each chunk of 512 logits: the best, whether all are finite, and, where the row needs them, the sum of
// exp((logit - best) / T), in which a masked one counts for nothing, and the lowest.
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   chunks  sampler-state.wgsl
//
// A thread a chunk, no barrier, sixteen logits at a time: their best first, then their weights against the best so far,
// so that each logit is read once. row-stats.wgsl merges. Prepend step, sampler-state and logit-words.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> chunks: array<u32>;

const SIZE = vec4<u32>(0x7fffffffu);

var<private> high: f32;
var<private> floor: f32;
var<private> scale: f32;
var<private> lows: vec4<f32>;
var<private> sizes: vec4<u32>;
var<private> sums: vec4<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = (group.y * groups.x + group.x) * 64u + lane;
  let row = index / params.chunks;
  // Threads past the tile would write over its last row, where another tile follows.
  if (row >= params.tileRows || params.firstRow + row >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + (params.firstRow + row) * 16u;
  let flags = step[at + 2u];
  let weighed = (flags & (LOGITS_SAMPLED | LOGITS_LOGPROB | LOGITS_ID_LOGPROBS)) != 0u || step[at + 11u] > 0u;
  scale = log2ScaleOf(select(1.0, bitcast<f32>(step[at + 4u]), (flags & LOGITS_SAMPLED) != 0u));
  high = -FLOAT_MAX;
  floor = -FLOAT_MAX;
  lows = vec4<f32>(FLOAT_MAX);
  let words = wordsOf(row, params.vocabulary);
  let begin = (index % params.chunks) * CHUNK_WORDS;
  let end = min(begin + CHUNK_WORDS, (params.vocabulary + 3u) / 4u);
  var word = begin;
  if (weighed) {
    for (; word + 4u <= end; word += 4u) {
      let bits0 = logitWord(words, word, params.vocabulary);
      let bits1 = logitWord(words, word + 1u, params.vocabulary);
      let bits2 = logitWord(words, word + 2u, params.vocabulary);
      let bits3 = logitWord(words, word + 3u, params.vocabulary);
      let logits0 = bitcast<vec4<f32>>(bits0);
      let logits1 = bitcast<vec4<f32>>(bits1);
      let logits2 = bitcast<vec4<f32>>(bits2);
      let logits3 = bitcast<vec4<f32>>(bits3);
      sizes = max(max(sizes, max(bits0 & SIZE, bits1 & SIZE)), max(bits2 & SIZE, bits3 & SIZE));
      lows = min(min(lows, min(logits0, logits1)), min(logits2, logits3));
      raise(max(max(logits0, logits1), max(logits2, logits3)));
      sums += weights(logits0) + weights(logits1);
      sums += weights(logits2) + weights(logits3);
    }
  } else {
    for (; word + 4u <= end; word += 4u) {
      let bits0 = logitWord(words, word, params.vocabulary);
      let bits1 = logitWord(words, word + 1u, params.vocabulary);
      let bits2 = logitWord(words, word + 2u, params.vocabulary);
      let bits3 = logitWord(words, word + 3u, params.vocabulary);
      sizes = max(max(sizes, max(bits0 & SIZE, bits1 & SIZE)), max(bits2 & SIZE, bits3 & SIZE));
      let some = max(bitcast<vec4<f32>>(bits0), bitcast<vec4<f32>>(bits1));
      let others = max(bitcast<vec4<f32>>(bits2), bitcast<vec4<f32>>(bits3));
      let highs = max(some, others);
      high = max(high, max(max(highs.x, highs.y), max(highs.z, highs.w)));
    }
  }
  // The vocabulary's end, where ids may be past it.
  for (; word < end; word++) {
    let bits = logitWord(words, word, params.vocabulary);
    let logits4 = bitcast<vec4<f32>>(bits);
    sizes = max(sizes, bits & SIZE);
    lows = min(lows, select(logits4, vec4<f32>(FLOAT_MAX), bits == vec4<u32>(MASKED)));
    raise(logits4);
    sums += weights(logits4);
  }
  let largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  chunks[index * 4u] = bitcast<u32>(high);
  chunks[index * 4u + 1u] = u32(largest >= 0x7f800000u);
  chunks[index * 4u + 2u] = bitcast<u32>((sums.x + sums.y) + (sums.z + sums.w));
  chunks[index * 4u + 3u] = bitcast<u32>(min(min(lows.x, lows.y), min(lows.z, lows.w)));
}

// Takes these logits into the best so far.
fn raise(highs: vec4<f32>) {
  let best = max(max(highs.x, highs.y), max(highs.z, highs.w));
  if (best > high) {
    floor = lowestLogit(best, scale, 200.0);
    sums *= exp2((max(high, floor) - best) * scale);
    high = best;
  }
}

// A masked logit is so far below that its weight is 0; where all so far are masked, weights are 1, and count for nothing
// once one is not.
fn weights(some: vec4<f32>) -> vec4<f32> {
  return exp2((max(some, vec4<f32>(floor)) - vec4<f32>(high)) * scale);
}
