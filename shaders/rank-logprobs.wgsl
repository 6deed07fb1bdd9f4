// Puts a row's N candidates in order (logit descending, id ascending) with their logprobs, at the row's temperature.
//
//   step        metadata; logits rows = step[2]
//   logits      [tile rows, stride] f32
//   best        [tile rows, 4] u32 of argmax.wgsl
//   totals      [tile rows] f32 of sample.wgsl
//   candidates  [sum of the rows' N] u32, ascending by id within a row
//   top         [sum of the rows' N, 2] u32: id, bits of the logprob
//
// A candidate's rank is the number of better ones: N^2 compares, no barrier, and N is small.
// Prepend step, logit-key and select-kept.
struct Params {
  stride: u32,
  firstRow: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> best: array<u32>;
@group(0) @binding(4) var<storage, read> totals: array<f32>;
@group(0) @binding(5) var<storage, read> candidates: array<u32>;
@group(0) @binding(6) var<storage, read_write> top: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let wanted = step[at + 11u];
  let first = step[at + 12u];
  rowAt = row * params.stride;
  high = bitcast<f32>(best[row * 4u + 2u]);
  temperature = select(1.0, bitcast<f32>(step[at + 4u]), (step[at + 2u] & LOGITS_SAMPLED) != 0u);
  for (var i = lane; i < wanted; i += THREADS) {
    let id = candidates[first + i];
    let logit = logits[rowAt + id];
    let key = logitKey(logit);
    var rank = 0u;
    for (var other = 0u; other < wanted; other++) {
      let otherKey = logitKey(logits[rowAt + candidates[first + other]]);
      rank += u32(otherKey > key || (otherKey == key && other < i));
    }
    let logprob = max(logWeight(logit), totals[row] - FLOAT_MAX) - totals[row];
    top[(first + rank) * 2u] = id;
    top[(first + rank) * 2u + 1u] = bitcast<u32>(logprob);
  }
}
