// Of each chunk of 256 logits: the best, whether all are finite, and, where the row needs them, the sum of
// exp((logit - best) / T), in which a masked one counts for nothing, and the lowest, or 0 where none is negative.
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
  let scale = log2ScaleOf(select(1.0, bitcast<f32>(step[at + 4u]), (flags & LOGITS_SAMPLED) != 0u));
  let chunk = part % regions * STRANDS + lane;
  let end = endWordOf(chunk, params.vocabulary);
  let words = wordsOf(row, params.vocabulary);
  var word = firstWordOf(chunk);
  // Further below the best, weights are 0.
  let depth = 200.0 / scale;
  var high = -FLOAT_MAX;
  var floor = -FLOAT_MAX;
  var sums = vec4<f32>(0.0);
  // The greatest of the bits as signed and as unsigned numbers: of the logits that are not negative the highest, of those
  // that are the lowest, each past all finite ones where it is a NaN or an infinity.
  var positive = vec4<i32>(0);
  var negative = vec4<u32>(0u);
  if (weighed) {
    for (; word + 3u * STRANDS < end; word += 4u * STRANDS) {
      let bits0 = logitWord(words, word, params.vocabulary);
      let bits1 = logitWord(words, word + STRANDS, params.vocabulary);
      let bits2 = logitWord(words, word + 2u * STRANDS, params.vocabulary);
      let bits3 = logitWord(words, word + 3u * STRANDS, params.vocabulary);
      let logits0 = bitcast<vec4<f32>>(bits0);
      let logits1 = bitcast<vec4<f32>>(bits1);
      let logits2 = bitcast<vec4<f32>>(bits2);
      let logits3 = bitcast<vec4<f32>>(bits3);
      positive = max(max(positive, max(asSigned(bits0), asSigned(bits1))), max(asSigned(bits2), asSigned(bits3)));
      negative = max(max(negative, max(bits0, bits1)), max(bits2, bits3));
      let best = highest(max(max(logits0, logits1), max(logits2, logits3)));
      for (; best > high; high = best) {
        floor = logitBelow(best, depth);
        sums *= exp2((max(high, floor) - best) * scale);
      }
      sums += weights(logits0, high, floor, scale) + weights(logits1, high, floor, scale);
      sums += weights(logits2, high, floor, scale) + weights(logits3, high, floor, scale);
    }
  } else {
    for (; word + 3u * STRANDS < end; word += 4u * STRANDS) {
      let bits0 = logitWord(words, word, params.vocabulary);
      let bits1 = logitWord(words, word + STRANDS, params.vocabulary);
      let bits2 = logitWord(words, word + 2u * STRANDS, params.vocabulary);
      let bits3 = logitWord(words, word + 3u * STRANDS, params.vocabulary);
      positive = max(max(positive, max(asSigned(bits0), asSigned(bits1))), max(asSigned(bits2), asSigned(bits3)));
      negative = max(max(negative, max(bits0, bits1)), max(bits2, bits3));
      let some = max(bitcast<vec4<f32>>(bits0), bitcast<vec4<f32>>(bits1));
      let others = max(bitcast<vec4<f32>>(bits2), bitcast<vec4<f32>>(bits3));
      high = max(high, highest(max(some, others)));
    }
  }
  // The vocabulary's end, where ids may be past it: they are masked.
  for (; word < end; word += STRANDS) {
    let bits = logitWord(words, word, params.vocabulary);
    let logits = bitcast<vec4<f32>>(bits);
    positive = max(positive, asSigned(bits));
    negative = max(negative, select(bits, vec4<u32>(0u), bits == vec4<u32>(MASKED)));
    let best = highest(logits);
    for (; best > high; high = best) {
      floor = logitBelow(best, depth);
      sums *= exp2((max(high, floor) - best) * scale);
    }
    sums += weights(logits, high, floor, scale);
  }
  let last = max(max(positive.x, positive.y), max(positive.z, positive.w));
  let lowest = max(max(negative.x, negative.y), max(negative.z, negative.w));
  let chunkAt = row * CHUNK_WORDS * params.chunks + chunk;
  chunks[chunkAt] = bitcast<u32>(high);
  chunks[chunkAt + params.chunks] = u32(last >= 0x7f800000 || lowest >= 0xff800000u);
  if (weighed) {
    chunks[chunkAt + 2u * params.chunks] = bitcast<u32>((sums.x + sums.y) + (sums.z + sums.w));
    chunks[chunkAt + 3u * params.chunks] = select(0u, lowest, lowest > 0x80000000u);
  }
}

fn asSigned(bits: vec4<u32>) -> vec4<i32> {
  return bitcast<vec4<i32>>(bits);
}

fn highest(logits: vec4<f32>) -> f32 {
  return max(max(logits.x, logits.y), max(logits.z, logits.w));
}

// Against the best so far. A masked logit is so far below that its weight is 0; where all so far are masked, weights are
// 1, and count for nothing once one is not.
fn weights(logits: vec4<f32>, high: f32, floor: f32, scale: f32) -> vec4<f32> {
  return exp2((max(logits, vec4<f32>(floor)) - vec4<f32>(high)) * scale);
}
