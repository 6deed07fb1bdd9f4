// Of each row: the best id, the sum of its weights, the draw where its head decides it (draw-head.wgsl) or nothing is
// filtered (draw-tail.wgsl), what is to be searched for where not; the logprob of the id, and the slot's last id.
//
//   step     metadata; logits rows = step[2]
//   logits   logit-words*.wgsl
//   rows, jobs, picks  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A workgroup of THREADS a row; each goes through strands. What follows from a few words for all of a row, each thread
// works out by itself: a barrier costs SwiftShader more, and no thread of a GPU would have had anything else to do. The
// k-th best of the strands' best is no better than the k-th best token.
//
// Prepend step, logit-key, sampler-state, logit-words, threefry, draw, tell-id, draw-head, draw-tail, and what strands and
// chunks are made of: row-chunks for chunk-stats.wgsl's chunks, row-logits for a small vocabulary's logits; last, who weighs
// draws: weigh-within, weigh-regions or weigh-later.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
  // 1: large searches go by buckets.
  buckets: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;
@group(0) @binding(4) var<storage, read_write> jobs: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> picks: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> results: array<u32>;
@group(0) @binding(7) var<storage, read_write> lastIds: array<u32>;

// Of some strands: best and lowest logit; 1 if a NaN or an infinity was seen.
struct Strand {
  best: f32,
  low: f32,
  nonFinite: u32,
}

@compute @workgroup_size(THREADS)
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
  let threadAt = stateAt + ROW_LIST + lane;

  if (lane == 0u) {
    atomicStore(&opened, 0u);
    atomicStore(&listed, 0u);
  }
  var mine = Strand(-FLOAT_MAX, FLOAT_MAX, 0u);
  for (var strand = lane; strand < STRANDS; strand += THREADS) {
    let one = bestOfStrand(strand);
    mine = Strand(max(mine.best, one.best), min(mine.low, one.low), mine.nonFinite | one.nonFinite);
    rows[stateAt + ROW_STRANDS + strand] = bitcast<u32>(one.best);
  }
  rows[threadAt] = bitcast<u32>(mine.best);
  rows[threadAt + 64u] = bitcast<u32>(mine.low);
  rows[threadAt + 128u] = mine.nonFinite;
  workgroupBarrier();
  storageBarrier();

  high = mine.best;
  var low = mine.low;
  var nonFinite = 0u;
  for (var i = 0u; i < THREADS; i++) {
    high = max(high, bitcast<f32>(rows[stateAt + ROW_LIST + i]));
    low = min(low, bitcast<f32>(rows[stateAt + ROW_LIST + 64u + i]));
    nonFinite |= rows[stateAt + ROW_LIST + 128u + i];
  }
  weightless = lowestLogit(high, scale, 200.0);
  // All masked: there is nothing to draw, and the id means as little as that of a NaN.
  let nothing = (nonFinite | u32(high == -FLOAT_MAX)) != 0u;
  // Masked ones are below every range.
  low = min(max(low, bitcast<f32>(MASKED - 1u)), high);
  rows[threadAt + 192u] = bestOf(lane, mine.best);
  let topK = select(params.vocabulary, min(step[at + 5u], params.vocabulary), step[at + 5u] > 0u);
  // A row that isn't drawn has a head where that tells its top logprobs.
  let drawnHead = select(HEAD, topK, topK <= HEAD_MOST && topK < params.vocabulary);
  let head = select(select(0u, top, top <= HEAD_MOST), drawnHead, sampled);
  for (var strand = select(STRANDS, lane, weighed); strand < STRANDS; strand += THREADS) {
    rows[stateAt + ROW_STRANDS + STRANDS + strand] = bitcast<u32>(weightOfStrand(strand));
  }
  let bounds = bound(lane, vec2<u32>(head, top));
  rows[threadAt + 256u] = bitcast<u32>(bounds.x);
  rows[threadAt + 320u] = bitcast<u32>(bounds.y);
  storageBarrier();
  var total = 0.0;
  for (var i = select(STRANDS, 0u, weighed); i < STRANDS; i++) {
    total += bitcast<f32>(rows[stateAt + ROW_STRANDS + STRANDS + i]);
  }
  var least = vec2<f32>(-FLOAT_MAX);
  for (var i = 0u; i < THREADS; i++) {
    let boundAt = stateAt + ROW_LIST + 256u + i;
    least = max(least, vec2<f32>(bitcast<f32>(rows[boundAt]), bitcast<f32>(rows[boundAt + 64u])));
  }

  if (lane == 0u) {
    var best = NONE;
    for (var i = 0u; i < THREADS; i++) {
      best = min(best, rows[stateAt + ROW_LIST + 192u + i]);
    }
    best = select(best, 0u, best == NONE);
    rows[stateAt + ROW_NON_FINITE] = u32(nothing);
    rows[stateAt + ROW_HIGH] = bitcast<u32>(high);
    rows[stateAt + ROW_LN_TOTAL] = bitcast<u32>(log(max(total, 1.0)));
    rows[stateAt + ROW_TEMPERATURE] = bitcast<u32>(temperature);
    rows[stateAt + ROW_WAITS] = 0u;
    results[record * 4u] = select(best, min(step[at + 13u], params.vocabulary - 1u), (flags & LOGITS_SCORED) != 0u);
    results[record * 4u + 1u] = u32(nothing);
  }
  var draw: Draw;
  draw.at = at;
  draw.record = record;
  draw.topK = topK;
  draw.massLimit = ALL;
  draw.filtered = topK < params.vocabulary;
  draw.floor = max(lowestLogit(high, scale, 44.0), low);
  draw.total = total;
  draw.sampled = sampled && !nothing;
  let topP = bitcast<f32>(step[at + 6u]);
  let minP = bitcast<f32>(step[at + 7u]);
  if (topP < 1.0) {
    draw.filtered = true;
    draw.massLimit = topP * total;
  }
  if (minP > 0.0) {
    draw.filtered = true;
    draw.floor = max(draw.floor, max(high + log(minP) * temperature, weightless));
  }
  var searched = false;
  if (head > 0u) {
    searched = drawn(lane, draw, head, least.x, !nothing);
  }
  for (var last = lane == 0u; last; last = false) {
    let id = results[record * 4u];
    tellId(row, record, id, logitWord(words, id / 4u, params.vocabulary)[id % 4u]);
    // What top p reaches down to: all that is 2^-depth of the best and less is a fourth of what it leaves at most. Less
    // than 2^-44 of the best is less than the uniform's 24 bits can tell.
    var floor = draw.floor;
    if (topP < 1.0) {
      floor = max(floor, lowestLogit(high, scale, min(44.0, log2(f32(params.vocabulary) / (1.0 - topP)) + 2.0)));
    }
    if (topK <= HEAD_MOST) {
      floor = max(floor, least.x);
    }
    // Only where top k is past every head is a search to be expected.
    var whole = params.buckets == 0u || topK <= HEAD_MOST || topK == params.vocabulary;
    var some = searched;
    var limit = topK;
    var massLimit = draw.massLimit;
    var rangeLow = floor;
    var ofHead = 0u;
    let size = select(0u, listSize(), head > 0u && !nothing);
    let told = top > 0u && top <= min(head, size) && size <= HEAD_LIST;
    var weightScale = scale;
    for (var number = row; number < 2u * params.tileRows; number += params.tileRows) {
      // A range so small that its inverse overflows is one bucket; half of it can't overflow.
      let half = high * 0.5 - rangeLow * 0.5;
      let bucketScale = select(0.0, f32(BUCKETS) * 0.5 / half, half > 1e-30);
      let jobAt = number * JOB_STATE / 4u;
      jobs[jobAt] = vec4<u32>(u32(some && !whole) * TASK_CUT, 0u, u32(some && whole), NONE);
      jobs[jobAt + 1u] = vec4<u32>(limit, bitcast<u32>(massLimit), 0u, bitcast<u32>(total));
      jobs[jobAt + 2u] = bitcast<vec4<u32>>(vec4<f32>(floor, rangeLow, bucketScale, weightScale));
      jobs[jobAt + JOB_ABOVE / 4u] = vec4<u32>(0u);
      picks[number * PICK_STATE / 4u] = vec4<u32>(0u, NONE, 0u, bitcast<u32>(total));
      picks[number * PICK_STATE / 4u + 1u] = vec4<u32>(NONE, ofHead, 0u, 0u);
      some = top > 0u && top < params.vocabulary && !nothing && !told;
      whole = params.buckets == 0u || top <= head;
      ofHead = u32(told);
      limit = top;
      massLimit = ALL;
      floor = least.y;
      // Such that no difference overflows.
      rangeLow = max(max(floor, low), max(high, 0.0) - 3.4e38);
      // Weights don't matter, and may be too small.
      weightScale = 0.0;
    }
  }
}

// The lowest id of the row's best logit among a thread's strands.
fn bestOf(lane: u32, best: f32) -> u32 {
  var id = NONE;
  for (var strand = select(STRANDS, lane, best == high); strand < STRANDS; strand += THREADS) {
    for (var chunk = strand; chunk < params.chunks; chunk += STRANDS) {
      for (var open = bitcast<f32>(chunkBest(chunk)) == high; open; open = false) {
        let end = endWordOf(chunk, params.vocabulary);
        for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
          let equal = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary)) == vec4<f32>(high);
          if (any(equal)) {
            id = min(id, word * 4u + select(select(select(3u, 2u, equal.z), 1u, equal.y), 0u, equal.x));
            break;
          }
        }
        // Later chunks of a strand have later ids.
        chunk = params.chunks;
      }
    }
  }
  return id;
}

// The highest of a thread's strands' best that as many strands' best as are wanted are no worse than, twice.
fn bound(lane: u32, wanted: vec2<u32>) -> vec2<f32> {
  var bounds = vec2<f32>(-FLOAT_MAX);
  let some = any(wanted > vec2<u32>(0u)) && any(wanted <= vec2<u32>(STRANDS));
  for (var first = select(STRANDS, lane, some); first < STRANDS; first += 4u * THREADS) {
    let own = vec4<u32>(first, first + THREADS, first + 2u * THREADS, first + 3u * THREADS);
    let at = vec4<u32>(stateAt + ROW_STRANDS) + min(own, vec4<u32>(STRANDS - 1u));
    let bests = bitcast<vec4<f32>>(vec4<u32>(rows[at.x], rows[at.y], rows[at.z], rows[at.w]));
    var ranks = vec4<u32>(0u);
    for (var i = 0u; i < STRANDS; i++) {
      let other = bitcast<f32>(rows[stateAt + ROW_STRANDS + i]);
      ranks += select(vec4<u32>(0u), vec4<u32>(1u), vec4<f32>(other) >= bests);
    }
    let heads = select(vec4<f32>(-FLOAT_MAX), bests, ranks >= vec4<u32>(wanted.x));
    let tops = select(vec4<f32>(-FLOAT_MAX), bests, ranks >= vec4<u32>(wanted.y));
    bounds = max(bounds, max(vec2<f32>(heads.x, tops.x), vec2<f32>(heads.y, tops.y)));
    bounds = max(bounds, max(vec2<f32>(heads.z, tops.z), vec2<f32>(heads.w, tops.w)));
  }
  return bounds;
}
