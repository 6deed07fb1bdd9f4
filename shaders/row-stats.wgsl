// Of each row, from its chunks: the best id, the sum of its weights, the draw where its head decides it (draw-head.wgsl) or
// nothing is filtered (draw-tail.wgsl), and what is to be searched for where not.
//
//   step     metadata; logits rows = step[2]
//   logits   logit-words*.wgsl
//   chunks, rows, jobs, picks  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, 0, 0
//
// A workgroup of 64 a row, a thread a strand: it adds the strand's chunks in order, thread 0 the strands in order. The k-th
// best of the strands' best is no better than the k-th best token.
// Prepend step, logit-key, sampler-state, logit-words, threefry, draw, draw-head and draw-tail.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> chunks: array<u32>;
@group(0) @binding(4) var<storage, read_write> rows: array<u32>;
@group(0) @binding(5) var<storage, read_write> jobs: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> picks: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> results: array<u32>;

// The row's best logit, sum of weights, lowest logit.
var<workgroup> whole: vec4<f32>;
var<workgroup> bestId: atomic<u32>;
// Of the head and of the top logprobs.
var<workgroup> bounds: array<f32, 2>;

@compute @workgroup_size(STRANDS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let flags = step[at + 2u];
  let sampled = (flags & LOGITS_SAMPLED) != 0u;
  let top = min(step[at + 11u], params.vocabulary);
  let weighed = (flags & (LOGITS_SAMPLED | LOGITS_LOGPROB | LOGITS_ID_LOGPROBS)) != 0u || top > 0u;
  let temperature = select(1.0, bitcast<f32>(step[at + 4u]), sampled);
  scale = log2ScaleOf(temperature);
  words = wordsOf(row, params.vocabulary);
  stateAt = row * ROW_STATE;
  chunksAt = row * CHUNK_WORDS * params.chunks;

  if (lane == 0u) {
    atomicStore(&bestId, NONE);
    atomicStore(&listed, 0u);
    bounds = array<f32, 2>(-FLOAT_MAX, -FLOAT_MAX);
  }
  var mine = vec3<f32>(-FLOAT_MAX, 0.0, FLOAT_MAX);
  var nonFinite = 0u;
  for (var chunk = lane; chunk < params.chunks; chunk += STRANDS) {
    mine.x = max(mine.x, bitcast<f32>(chunks[chunksAt + chunk]));
    nonFinite |= chunks[chunksAt + params.chunks + chunk];
  }
  var lowest = lowestLogit(mine.x, scale, 200.0);
  for (var chunk = lane; weighed && chunk < params.chunks; chunk += STRANDS) {
    let weight = exp2((max(bitcast<f32>(chunks[chunksAt + chunk]), lowest) - mine.x) * scale);
    mine.y += bitcast<f32>(chunks[chunksAt + 2u * params.chunks + chunk]) * weight;
    mine.z = min(mine.z, bitcast<f32>(chunks[chunksAt + 3u * params.chunks + chunk]));
  }
  let strandAt = stateAt + ROW_STRANDS + lane;
  rows[strandAt] = bitcast<u32>(mine.x);
  rows[strandAt + STRANDS] = bitcast<u32>(mine.y);
  rows[strandAt + 2u * STRANDS] = bitcast<u32>(mine.z);
  rows[strandAt + 3u * STRANDS] = nonFinite;
  storageBarrier();
  workgroupBarrier();
  if (lane == 0u) {
    var all = vec4<f32>(mine, 0.0);
    for (var i = 1u; i < STRANDS; i++) {
      all.x = max(all.x, bitcast<f32>(rows[strandAt + i]));
      nonFinite |= rows[strandAt + 3u * STRANDS + i];
    }
    lowest = lowestLogit(all.x, scale, 200.0);
    all.y = 0.0;
    for (var i = 0u; weighed && i < STRANDS; i++) {
      let weight = exp2((max(bitcast<f32>(rows[strandAt + i]), lowest) - all.x) * scale);
      all.y += bitcast<f32>(rows[strandAt + STRANDS + i]) * weight;
      all.z = min(all.z, bitcast<f32>(rows[strandAt + 2u * STRANDS + i]));
    }
    // All masked: there is nothing to draw, and the id means as little as that of a NaN.
    all.w = f32(nonFinite | u32(all.x == -FLOAT_MAX));
    whole = all;
  }
  let all = workgroupUniformLoad(&whole);
  high = all.x;
  weightless = lowestLogit(high, scale, 200.0);
  for (var chunk = select(params.chunks, lane, mine.x == high); chunk < params.chunks; chunk += STRANDS) {
    for (var open = bitcast<f32>(chunks[chunksAt + chunk]) == high; open; open = false) {
      let end = endWordOf(chunk, params.vocabulary);
      for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
        let equal = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary)) == vec4<f32>(high);
        if (any(equal)) {
          atomicMin(&bestId, word * 4u + select(select(select(3u, 2u, equal.z), 1u, equal.y), 0u, equal.x));
          break;
        }
      }
      chunk = params.chunks;
    }
  }
  let topK = select(params.vocabulary, min(step[at + 5u], params.vocabulary), step[at + 5u] > 0u);
  let head = select(HEAD, topK, topK <= HEAD_MOST && topK < params.vocabulary);
  let wanted = vec2<u32>(select(0u, head, sampled), top);
  for (var some = any(wanted > vec2<u32>(0u)) && any(wanted <= vec2<u32>(STRANDS)); some; some = false) {
    var rank = 0u;
    for (var i = 0u; i < STRANDS; i++) {
      let other = bitcast<f32>(rows[stateAt + ROW_STRANDS + i]);
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
  let nothing = all.w != 0.0;
  if (lane == 0u) {
    let found = atomicLoad(&bestId);
    let id = select(found, 0u, found == NONE);
    rows[stateAt + ROW_NON_FINITE] = u32(nothing);
    rows[stateAt + ROW_HIGH] = bitcast<u32>(high);
    rows[stateAt + ROW_LN_TOTAL] = bitcast<u32>(log(max(all.y, 1.0)));
    rows[stateAt + ROW_TEMPERATURE] = bitcast<u32>(temperature);
    rows[stateAt + ROW_WAITS] = 0u;
    results[record * 4u] = select(id, min(step[at + 13u], params.vocabulary - 1u), (flags & LOGITS_SCORED) != 0u);
    results[record * 4u + 1u] = u32(nothing);
  }

  // Masked ones are below every range.
  let low = min(max(all.z, bitcast<f32>(MASKED - 1u)), high);
  var draw: Draw;
  draw.at = at;
  draw.record = record;
  draw.topK = topK;
  draw.massLimit = 3.0e38;
  draw.filtered = topK < params.vocabulary;
  draw.floor = max(lowestLogit(high, scale, 44.0), low);
  let topP = bitcast<f32>(step[at + 6u]);
  let minP = bitcast<f32>(step[at + 7u]);
  if (topP < 1.0) {
    draw.filtered = true;
    draw.massLimit = topP * all.y;
  }
  if (minP > 0.0) {
    draw.filtered = true;
    draw.floor = max(draw.floor, max(high + log(minP) * temperature, weightless));
  }
  let searched = drawn(lane, draw, head, sampled && !nothing);
  if (lane != 0u) {
    return;
  }
  // What top p reaches down to: all that is 2^-depth of the best and less is a fourth of what it leaves at most. Less than
  // 2^-44 of the best is less than the uniform's 24 bits can tell.
  var floor = draw.floor;
  if (topP < 1.0) {
    floor = max(floor, lowestLogit(high, scale, min(44.0, log2(f32(params.vocabulary) / (1.0 - topP)) + 2.0)));
  }
  if (topK <= HEAD_MOST) {
    floor = max(floor, bounds[0]);
  }
  var task = select(0u, TASK_CUT, searched);
  var limit = topK;
  var massLimit = draw.massLimit;
  var rangeLow = floor;
  var weightScale = scale;
  for (var kind = 0u; kind < 2u; kind++) {
    // A range so small that its inverse overflows is one bucket; half of it can't overflow.
    let half = high * 0.5 - rangeLow * 0.5;
    let bucketScale = select(0.0, f32(BUCKETS) * 0.5 / half, half > 1e-30);
    let job = kind * params.tileRows + row;
    jobs[job * JOB_STATE / 4u] = vec4<u32>(task, 0u, 0u, NONE);
    jobs[job * JOB_STATE / 4u + 1u] = vec4<u32>(limit, bitcast<u32>(massLimit), 0u, bitcast<u32>(all.y));
    jobs[job * JOB_STATE / 4u + 2u] = bitcast<vec4<u32>>(vec4<f32>(floor, rangeLow, bucketScale, weightScale));
    jobs[(job * JOB_STATE + JOB_ABOVE) / 4u] = vec4<u32>(0u);
    picks[job * PICK_STATE / 4u] = vec4<u32>(0u, NONE, 0u, bitcast<u32>(all.y));
    picks[job * PICK_STATE / 4u + 1u] = vec4<u32>(NONE, 0u, 0u, 0u);
    task = select(0u, TASK_CUT, top > 0u && top < params.vocabulary && !nothing);
    limit = top;
    massLimit = 3.0e38;
    floor = bounds[1];
    rangeLow = max(floor, low);
    // Weights don't matter, and may be too small.
    weightScale = 0.0;
  }
}
