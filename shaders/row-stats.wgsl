// Of each row, from its chunks: the best id, the sum of its weights, and what is to be searched for; the result of a
// greedy row.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32
//   chunks, rows, jobs, picks  sampler-state.wgsl, four words at a time but for rows
//   results  [logits rows, 4] u32: id, non-finite, 0, 0
//
// A workgroup of 64 a row. A thread adds every 64th chunk in order, thread 0 the threads in order. Top k's
// floor: the k-th best of the threads' best is no better than the k-th best token.
// Prepend step, sampler-state, threefry and draw.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> chunks: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> rows: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> jobs: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> picks: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> results: array<vec4<u32>>;

const THREADS = 64u;

// The row's best logit, its chunk, sum of weights, lowest logit.
var<workgroup> whole: vec4<f32>;
var<workgroup> nonFinites: atomic<u32>;
var<workgroup> bestId: atomic<u32>;
// Of the draw and of the top logprobs.
var<workgroup> bounds: array<f32, 2>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let sampled = (step[at + 2u] & LOGITS_SAMPLED) != 0u;
  let temperature = select(1.0, bitcast<f32>(step[at + 4u]), sampled);
  let scale = log2ScaleOf(temperature);
  let topK = select(params.vocabulary, min(step[at + 5u], params.vocabulary), step[at + 5u] > 0u);
  let top = min(step[at + 11u], params.vocabulary);

  var mine = vec4<f32>(-FLOAT_MAX, f32(lane), 0.0, FLOAT_MAX);
  var nonFinite = 0u;
  for (var i = lane; i < params.chunks; i += THREADS) {
    let chunk = chunks[row * params.chunks + i];
    mine = merged(mine, vec4<f32>(bitcast<f32>(chunk.x), f32(i), bitcast<f32>(chunk.z), bitcast<f32>(chunk.w)), scale);
    nonFinite |= chunk.y;
  }
  let lanesAt = (row * ROW_STATE + ROW_LANES) / 4u;
  rows[lanesAt + lane] = bitcast<vec4<u32>>(mine);
  if (lane == 0u) {
    atomicStore(&nonFinites, 0u);
  }
  storageBarrier();
  workgroupBarrier();
  atomicOr(&nonFinites, nonFinite);
  if (lane == 0u) {
    var sum = mine;
    for (var i = 1u; i < min(params.chunks, THREADS); i++) {
      sum = merged(sum, bitcast<vec4<f32>>(rows[lanesAt + i]), scale);
    }
    whole = sum;
    atomicStore(&bestId, NONE);
    bounds = array<f32, 2>(-FLOAT_MAX, -FLOAT_MAX);
  }
  let all = workgroupUniformLoad(&whole);
  let begin = u32(all.y) * CHUNK_IDS + lane;
  let end = min((u32(all.y) + 1u) * CHUNK_IDS, params.vocabulary);
  for (var id = begin; id < end; id += THREADS) {
    if (logits[row * params.vocabulary + id] == all.x) {
      atomicMin(&bestId, id);
      break;
    }
  }
  let wanted = vec2<u32>(select(0u, topK, sampled), top);
  if (any(wanted > vec2<u32>(0u)) && any(wanted <= vec2<u32>(min(params.chunks, THREADS)))) {
    var rank = 0u;
    for (var i = 0u; i < THREADS; i++) {
      let other = bitcast<f32>(rows[lanesAt + i].x);
      rank += u32(other > mine.x || (other == mine.x && i < lane));
    }
    if (rank + 1u == wanted.x) {
      bounds[0] = mine.x;
    }
    if (rank + 1u == wanted.y) {
      bounds[1] = mine.x;
    }
  }
  workgroupBarrier();
  if (lane != 0u) {
    return;
  }
  let high = all.x;
  // All masked: there is nothing to draw, and the id means as little as that of a NaN.
  nonFinite = atomicLoad(&nonFinites) | u32(high == -FLOAT_MAX);
  let found = atomicLoad(&bestId);
  let id = select(found, 0u, found == NONE);
  rows[row * ROW_STATE / 4u] = vec4<u32>(
    nonFinite,
    bitcast<u32>(high),
    bitcast<u32>(log(max(all.z, 1.0))),
    bitcast<u32>(temperature),
  );
  let scored = (step[at + 2u] & LOGITS_SCORED) != 0u;
  results[record] = vec4<u32>(select(id, min(step[at + 13u], params.vocabulary - 1u), scored), nonFinite, 0u, 0u);

  let topP = bitcast<f32>(step[at + 6u]);
  let minP = bitcast<f32>(step[at + 7u]);
  // Masked ones are below every range.
  let low = min(max(all.w, bitcast<f32>(MASKED - 1u)), high);
  let filtered = topK < params.vocabulary || topP < 1.0 || minP > 0.0;
  // What top p, or without any filter the draw, reaches down to: all that is 2^-depth of the best and less is a fourth of
  // what they leave at most. Less than 2^-44 of the best is less than the uniform's 24 bits can tell.
  var depth = 44.0;
  if (topP < 1.0 || !filtered) {
    let reached = select(uniformOf(at), topP, topP < 1.0);
    depth = min(depth, log2(f32(params.vocabulary) / (1.0 - reached)) + 2.0);
  }
  var floor = max(max(lowestLogit(high, scale, depth), low), bounds[0]);
  if (minP > 0.0) {
    floor = max(floor, max(high + log(minP) * temperature, lowestLogit(high, scale, 200.0)));
  }
  var task = select(TASK_DRAW, TASK_CUT, filtered);
  task = select(0u, task, sampled && nonFinite == 0u);
  var limit = topK;
  var massLimit = select(3.0e38, topP * all.z, topP < 1.0);
  var rangeLow = floor;
  var weightScale = scale;
  for (var kind = 0u; kind < 2u; kind++) {
    // A range so small that its inverse overflows is one bucket; half of it can't overflow.
    let half = high * 0.5 - rangeLow * 0.5;
    let bucketScale = select(0.0, f32(BUCKETS) * 0.5 / half, half > 1e-30);
    let job = kind * params.tileRows + row;
    jobs[job * JOB_STATE / 4u] = vec4<u32>(task, 0u, 0u, NONE);
    jobs[job * JOB_STATE / 4u + 1u] = vec4<u32>(limit, bitcast<u32>(massLimit), 0u, bitcast<u32>(all.z));
    jobs[job * JOB_STATE / 4u + 2u] = bitcast<vec4<u32>>(vec4<f32>(floor, rangeLow, bucketScale, weightScale));
    jobs[(job * JOB_STATE + JOB_ABOVE) / 4u] = vec4<u32>(0u);
    picks[job * PICK_STATE / 4u] = vec4<u32>(0u, NONE, 0u, bitcast<u32>(all.z));
    picks[job * PICK_STATE / 4u + 1u] = vec4<u32>(NONE, 0u, 0u, 0u);
    task = select(0u, TASK_CUT, top > 0u && top < params.vocabulary && nonFinite == 0u);
    limit = top;
    massLimit = 3.0e38;
    floor = bounds[1];
    rangeLow = max(floor, low);
    // Weights don't matter, and may be too small.
    weightScale = 0.0;
  }
}

// Two parts of a row: best, its chunk (ties: the first), sum of weights against the best, lowest.
fn merged(a: vec4<f32>, b: vec4<f32>, scale: f32) -> vec4<f32> {
  let first = a.x > b.x || (a.x == b.x && a.y <= b.y);
  let best = select(b, a, first);
  let other = select(a, b, first);
  let weight = exp2((max(other.x, lowestLogit(best.x, scale, 200.0)) - best.x) * scale);
  return vec4<f32>(best.x, best.y, best.z + other.z * weight, min(a.w, b.w));
}
