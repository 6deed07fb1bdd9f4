// Of each chunk of 256 logits: the best, whether all are finite, and, where the row needs them, the sum of
// exp((logit - best) / T), in which a masked one counts for nothing, and the lowest.
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   chunks  sampler-state.wgsl
//
// A workgroup of 64 a row and region of 64 chunks, a thread a chunk: neighbours read neighbouring words. No barrier,
// sixteen logits at a time: their best first, then their weights against the best so far, so that each logit is read
// once. row-stats.wgsl merges. Prepend step, sampler-state and logit-words.
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
var<private> sums: vec4<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let part = group.y * groups.x + group.x;
  let regions = params.chunks / STRANDS;
  let row = part / regions;
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
  var low = FLOAT_MAX;
  var largest = vec4<u32>(0u);
  let chunk = part % regions * STRANDS + lane;
  var word = firstWordOf(chunk);
  let end = endWordOf(chunk, params.vocabulary);
  let words = wordsOf(row, params.vocabulary);
  if (weighed) {
    var lows = vec4<f32>(FLOAT_MAX);
    for (; word + 3u * STRANDS < end; word += 4u * STRANDS) {
      let bits0 = logitWord(words, word, params.vocabulary);
      let bits1 = logitWord(words, word + STRANDS, params.vocabulary);
      let bits2 = logitWord(words, word + 2u * STRANDS, params.vocabulary);
      let bits3 = logitWord(words, word + 3u * STRANDS, params.vocabulary);
      let logits0 = bitcast<vec4<f32>>(bits0);
      let logits1 = bitcast<vec4<f32>>(bits1);
      let logits2 = bitcast<vec4<f32>>(bits2);
      let logits3 = bitcast<vec4<f32>>(bits3);
      largest = max(max(largest, max(bits0 & SIZE, bits1 & SIZE)), max(bits2 & SIZE, bits3 & SIZE));
      lows = min(min(lows, min(logits0, logits1)), min(logits2, logits3));
      raise(max(max(logits0, logits1), max(logits2, logits3)));
      sums += weights(logits0) + weights(logits1);
      sums += weights(logits2) + weights(logits3);
    }
    low = min(min(lows.x, lows.y), min(lows.z, lows.w));
  } else {
    for (; word + 3u * STRANDS < end; word += 4u * STRANDS) {
      let bits0 = logitWord(words, word, params.vocabulary);
      let bits1 = logitWord(words, word + STRANDS, params.vocabulary);
      let bits2 = logitWord(words, word + 2u * STRANDS, params.vocabulary);
      let bits3 = logitWord(words, word + 3u * STRANDS, params.vocabulary);
      largest = max(max(largest, max(bits0 & SIZE, bits1 & SIZE)), max(bits2 & SIZE, bits3 & SIZE));
      let some = max(bitcast<vec4<f32>>(bits0), bitcast<vec4<f32>>(bits1));
      let others = max(bitcast<vec4<f32>>(bits2), bitcast<vec4<f32>>(bits3));
      let highs = max(some, others);
      high = max(high, max(max(highs.x, highs.y), max(highs.z, highs.w)));
    }
  }
  // The vocabulary's end, where ids may be past it.
  for (; word < end; word += STRANDS) {
    let bits = logitWord(words, word, params.vocabulary);
    let values = bitcast<vec4<f32>>(bits);
    largest = max(largest, bits & SIZE);
    let lows = select(values, vec4<f32>(FLOAT_MAX), bits == vec4<u32>(MASKED));
    low = min(low, min(min(lows.x, lows.y), min(lows.z, lows.w)));
    raise(values);
    sums += weights(values);
  }
  let last = max(max(largest.x, largest.y), max(largest.z, largest.w));
  let chunkAt = row * CHUNK_WORDS * params.chunks + chunk;
  chunks[chunkAt] = bitcast<u32>(high);
  chunks[chunkAt + params.chunks] = u32(last >= 0x7f800000u);
  if (weighed) {
    chunks[chunkAt + 2u * params.chunks] = bitcast<u32>((sums.x + sums.y) + (sums.z + sums.w));
    chunks[chunkAt + 3u * params.chunks] = bitcast<u32>(low);
  }
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
