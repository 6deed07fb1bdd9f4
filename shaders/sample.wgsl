// Draws one id a row: softmax at the row's temperature over the whole vocabulary; of the tokens in order (logit
// descending, id ascending) the first n stay, n being the least of top k, of the tokens whose weight before them is
// at most top p, and of those with p >= min p * p max; the draw inverts their running sum in ascending id at a 24-bit
// uniform of Threefry(seed, (output position, sample index)). Greedy rows keep their best id, at temperature 1.
// Logprob: ln p over the whole vocabulary, before the filters.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, stride] f32
//   best     [tile rows, 4] u32 of argmax.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//   totals   [tile rows] f32: ln of the row's sum of weights, for top-logprobs.wgsl
//
// A workgroup of 64 a row; a thread owns a range of ids, so every sum has one order. Prepend step, logit-key,
// select-kept and threefry.
struct Params {
  vocabulary: u32,
  stride: u32,
  firstRow: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> best: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;
@group(0) @binding(5) var<storage, read_write> lastIds: array<u32>;
@group(0) @binding(6) var<storage, read_write> totals: array<f32>;

var<workgroup> laneSums: array<f32, 64>;
var<workgroup> laneTies: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let flags = step[at + 2u];
  let sampled = (flags & LOGITS_SAMPLED) != 0u;
  rowAt = row * params.stride;
  high = bitcast<f32>(best[row * 4u + 2u]);
  temperature = select(1.0, bitcast<f32>(step[at + 4u]), sampled);
  minWeight = bitcast<f32>(step[at + 7u]);

  let range = (params.vocabulary + THREADS - 1u) / THREADS;
  let begin = min(lane * range, params.vocabulary);
  let end = min(begin + range, params.vocabulary);

  var sum = 0.0;
  for (var id = begin; id < end; id++) {
    sum += weightOf(logits[rowAt + id]);
  }
  laneSums[lane] = sum;
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < THREADS; i++) {
    total += laneSums[i];
  }
  workgroupBarrier();

  var id = best[row * 4u];
  var owner = 0u;
  if (sampled) {
    let topK = step[at + 5u];
    let topP = bitcast<f32>(step[at + 6u]);
    cutKey = 0u;
    cutTies = 0u;
    if ((topK > 0u && topK < params.vocabulary) || topP < 1.0) {
      selectKept(
        lane,
        begin,
        end,
        select(0xffffffffu, topK, topK > 0u),
        select(3.0e38, topP * total, topP < 1.0),
      );
    }

    // Ties stay in ascending id: each thread has to know those before its range.
    var ties = 0u;
    if (cutKey > 0u) {
      for (var i = begin; i < end; i++) {
        ties += u32(logitKey(logits[rowAt + i]) == cutKey);
      }
    }
    laneTies[lane] = ties;
    workgroupBarrier();
    var tiesBefore = 0u;
    for (var i = 0u; i < lane; i++) {
      tiesBefore += laneTies[i];
    }

    var kept = 0.0;
    ties = tiesBefore;
    for (var i = begin; i < end; i++) {
      kept += keptWeight(logits[rowAt + i], &ties);
    }
    laneSums[lane] = kept;
    workgroupBarrier();
    var all = 0.0;
    for (var i = 0u; i < THREADS; i++) {
      all += laneSums[i];
    }
    let draw = threefry(vec2<u32>(step[at + 8u], step[at + 9u]), vec2<u32>(step[at + 3u], step[at + 10u])).x >> 8u;
    let threshold = f32(draw) / 16777216.0 * all;
    // The first range whose end passes the threshold; if rounding puts it past all, the last with any weight.
    var before = 0.0;
    var ownerBefore = 0.0;
    for (var i = 0u; i < THREADS; i++) {
      if (laneSums[i] > 0.0) {
        owner = i;
        ownerBefore = before;
      }
      before += laneSums[i];
      if (before > threshold) {
        break;
      }
    }
    if (lane == owner) {
      var running = 0.0;
      ties = tiesBefore;
      for (var i = begin; i < end; i++) {
        let weight = keptWeight(logits[rowAt + i], &ties);
        if (weight > 0.0) {
          id = i;
          running += weight;
          if (ownerBefore + running > threshold) {
            break;
          }
        }
      }
    }
  }

  if (lane == owner) {
    results[record * 4u] = id;
    results[record * 4u + 1u] = best[row * 4u + 1u];
    var logprob = 0.0;
    if ((flags & LOGITS_LOGPROB) != 0u) {
      logprob = max(logWeight(logits[rowAt + id]), log(total) - FLOAT_MAX) - log(total);
    }
    results[record * 4u + 2u] = bitcast<u32>(logprob);
    totals[row] = log(total);
    if ((flags & LOGITS_WRITES_SLOT) != 0u) {
      lastIds[step[at + 1u]] = id;
    }
  }
}

// The weight of a token if it stays, else 0; counts the ties met.
fn keptWeight(logit: f32, ties: ptr<function, u32>) -> f32 {
  let key = logitKey(logit);
  if (key < cutKey) {
    return 0.0;
  }
  if (key == cutKey) {
    *ties += 1u;
    if (*ties > cutTies) {
      return 0.0;
    }
  }
  let weight = weightOf(logit);
  return select(0.0, weight, weight >= minWeight);
}
