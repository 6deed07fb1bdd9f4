// The ids of a row's N best logits (ties: the lowest ids), ascending by id; rank-logprobs.wgsl puts them in order.
//
//   step        metadata; logits rows = step[2]
//   logits      [tile rows, stride] f32
//   best        [tile rows, 4] u32 of argmax.wgsl
//   candidates  [sum of the rows' N] u32; row r's begin where its record says
//
// A workgroup of 64 a row, as in sample.wgsl. Prepend step, logit-key and select-kept.
struct Params {
  vocabulary: u32,
  stride: u32,
  firstRow: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> best: array<u32>;
@group(0) @binding(4) var<storage, read_write> candidates: array<u32>;

var<workgroup> laneTies: array<u32, 64>;
var<workgroup> laneAbove: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let wanted = step[at + 11u];
  if (wanted == 0u) {
    return;
  }
  rowAt = row * params.stride;
  high = bitcast<f32>(best[row * 4u + 2u]);
  temperature = 1.0;
  minWeight = 0.0;
  let range = (params.vocabulary + THREADS - 1u) / THREADS;
  let begin = min(lane * range, params.vocabulary);
  let end = min(begin + range, params.vocabulary);
  selectKept(lane, begin, end, wanted, 3.0e38);

  var ties = 0u;
  var above = 0u;
  for (var id = begin; id < end; id++) {
    let key = logitKey(logits[rowAt + id]);
    ties += u32(key == cutKey);
    above += u32(key > cutKey);
  }
  laneTies[lane] = ties;
  laneAbove[lane] = above;
  workgroupBarrier();
  var tiesBefore = 0u;
  var aboveBefore = 0u;
  for (var i = 0u; i < lane; i++) {
    tiesBefore += laneTies[i];
    aboveBefore += laneAbove[i];
  }
  ties = tiesBefore;
  var next = step[at + 12u] + aboveBefore + min(tiesBefore, cutTies);
  for (var id = begin; id < end; id++) {
    let key = logitKey(logits[rowAt + id]);
    var keep = key > cutKey;
    if (key == cutKey) {
      ties += 1u;
      keep = ties <= cutTies;
    }
    if (keep) {
      candidates[next] = id;
      next += 1u;
    }
  }
}
