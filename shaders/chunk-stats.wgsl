// Of each chunk of 512 logits: the best, the lowest that isn't masked, whether all are finite, and, where the row needs
// it, the sum of exp((logit - best) / T) over those that aren't masked.
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

const BLOCK_WORDS = 4u;

// Where the word is past the vocabulary: masked.
fn wordOf(row: u32, word: u32, end: u32) -> vec4<u32> {
  if (word >= end) {
    return vec4<u32>(MASKED);
  }
  return logitWord(row, word, params.vocabulary);
}

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
  let sampled = (flags & LOGITS_SAMPLED) != 0u;
  let weighed = (flags & (LOGITS_SAMPLED | LOGITS_LOGPROB | LOGITS_ID_LOGPROBS)) != 0u || step[at + 11u] > 0u;
  let scale = log2ScaleOf(select(1.0, bitcast<f32>(step[at + 4u]), sampled));
  let begin = (index % params.chunks) * CHUNK_WORDS;
  let end = min(begin + CHUNK_WORDS, (params.vocabulary + 3u) / 4u);
  let size = vec4<u32>(0x7fffffffu);
  var high = -FLOAT_MAX;
  var floor = -FLOAT_MAX;
  var lows = vec4<f32>(FLOAT_MAX);
  var sizes = vec4<u32>(0u);
  var sums = vec4<f32>(0.0);
  for (var word = begin; word < end; word += BLOCK_WORDS) {
    let bits0 = wordOf(row, word, end);
    let bits1 = wordOf(row, word + 1u, end);
    let bits2 = wordOf(row, word + 2u, end);
    let bits3 = wordOf(row, word + 3u, end);
    sizes = max(max(sizes, max(bits0 & size, bits1 & size)), max(bits2 & size, bits3 & size));
    let masked0 = bits0 == vec4<u32>(MASKED);
    let masked1 = bits1 == vec4<u32>(MASKED);
    let masked2 = bits2 == vec4<u32>(MASKED);
    let masked3 = bits3 == vec4<u32>(MASKED);
    let logits0 = bitcast<vec4<f32>>(bits0);
    let logits1 = bitcast<vec4<f32>>(bits1);
    let logits2 = bitcast<vec4<f32>>(bits2);
    let logits3 = bitcast<vec4<f32>>(bits3);
    let highs = max(max(logits0, logits1), max(logits2, logits3));
    let blockHigh = max(max(highs.x, highs.y), max(highs.z, highs.w));
    if (weighed) {
      let most = vec4<f32>(FLOAT_MAX);
      lows = min(
        min(lows, min(select(logits0, most, masked0), select(logits1, most, masked1))),
        min(select(logits2, most, masked2), select(logits3, most, masked3)),
      );
      if (blockHigh > high) {
        floor = lowestLogit(blockHigh, scale, 200.0);
        sums *= exp2((max(high, floor) - blockHigh) * scale);
        high = blockHigh;
      }
      let high4 = vec4<f32>(high);
      let floor4 = vec4<f32>(floor);
      sums += select(exp2((max(logits0, floor4) - high4) * scale), vec4<f32>(0.0), masked0);
      sums += select(exp2((max(logits1, floor4) - high4) * scale), vec4<f32>(0.0), masked1);
      sums += select(exp2((max(logits2, floor4) - high4) * scale), vec4<f32>(0.0), masked2);
      sums += select(exp2((max(logits3, floor4) - high4) * scale), vec4<f32>(0.0), masked3);
    } else {
      high = max(high, blockHigh);
    }
  }
  let largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  chunks[index * 4u] = bitcast<u32>(high);
  chunks[index * 4u + 1u] = u32(largest >= 0x7f800000u);
  chunks[index * 4u + 2u] = bitcast<u32>((sums.x + sums.y) + (sums.z + sums.w));
  chunks[index * 4u + 3u] = bitcast<u32>(min(min(lows.x, lows.y), min(lows.z, lows.w)));
}
