// Of each row, from its chunks: the best id, the sum of its weights, and what is to be searched for; the result of a
// greedy row.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32
//   chunks, rows, jobs, lists  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A workgroup of 64 a row; sums go by thread, then over the threads, in one order. A vocabulary of up to SMALL ids has one
// bucket. Top k's floor: the k-th best of the chunks' best is no better than the k-th best token.
// Prepend step, logit-key and sampler-state.
struct Params {
  vocabulary: u32,
  chunks: u32,
  firstRow: u32,
  tileRows: u32,
  small: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> chunks: array<u32>;
@group(0) @binding(4) var<storage, read_write> rows: array<u32>;
@group(0) @binding(5) var<storage, read_write> jobs: array<u32>;
@group(0) @binding(6) var<storage, read_write> results: array<u32>;
@group(0) @binding(7) var<storage, read_write> lastIds: array<u32>;

const THREADS = 64u;

var<workgroup> laneHighs: array<f32, 64>;
var<workgroup> laneChunks: array<u32, 64>;
var<workgroup> laneLows: array<f32, 64>;
var<workgroup> laneNonFinite: array<u32, 64>;
var<workgroup> laneSums: array<f32, 64>;
var<workgroup> bestId: atomic<u32>;
// The k-th best of the chunks' best, for the draw and for the top logprobs.
var<workgroup> bounds: array<f32, 2>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let record = params.firstRow + row;
  if (row >= params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let flags = step[at + 2u];
  let sampled = (flags & LOGITS_SAMPLED) != 0u;
  let temperature = select(1.0, bitcast<f32>(step[at + 4u]), sampled);
  let scale = log2ScaleOf(temperature);
  let topK = select(params.vocabulary, min(step[at + 5u], params.vocabulary), step[at + 5u] > 0u);
  let topP = bitcast<f32>(step[at + 6u]);
  let minP = bitcast<f32>(step[at + 7u]);
  let top = min(step[at + 11u], params.vocabulary);
  let first = row * params.chunks;

  var high = -FLOAT_MAX;
  var low = FLOAT_MAX;
  var nonFinite = 0u;
  var chunk = lane;
  for (var i = lane; i < params.chunks; i += THREADS) {
    let chunkAt = (first + i) * 4u;
    let chunkHigh = bitcast<f32>(chunks[chunkAt]);
    if (chunkHigh > high) {
      high = chunkHigh;
      chunk = i;
    }
    nonFinite |= chunks[chunkAt + 1u];
    low = min(low, bitcast<f32>(chunks[chunkAt + 3u]));
  }
  laneHighs[lane] = high;
  laneChunks[lane] = chunk;
  laneLows[lane] = low;
  laneNonFinite[lane] = nonFinite;
  if (lane == 0u) {
    atomicStore(&bestId, NONE);
    bounds = array<f32, 2>(-FLOAT_MAX, -FLOAT_MAX);
  }
  workgroupBarrier();
  // Every thread the same.
  high = -FLOAT_MAX;
  chunk = 0u;
  for (var i = 0u; i < THREADS; i++) {
    if (laneHighs[i] > high || (laneHighs[i] == high && laneChunks[i] < chunk)) {
      high = laneHighs[i];
      chunk = laneChunks[i];
    }
    low = min(low, laneLows[i]);
    nonFinite |= laneNonFinite[i];
  }
  low = min(low, high);

  var sum = 0.0;
  let least = lowestLogit(high, scale, 200.0);
  for (var i = lane; i < params.chunks; i += THREADS) {
    let chunkAt = (first + i) * 4u;
    sum += bitcast<f32>(chunks[chunkAt + 2u]) * exp2((max(bitcast<f32>(chunks[chunkAt]), least) - high) * scale);
  }
  laneSums[lane] = sum;
  let end = min((chunk + 1u) * CHUNK_IDS, params.vocabulary);
  for (var id = chunk * CHUNK_IDS + lane; id < end; id += THREADS) {
    if (logits[row * params.vocabulary + id] == high) {
      atomicMin(&bestId, id);
      break;
    }
  }
  for (var kind = 0u; kind < 2u; kind++) {
    let wanted = select(select(0u, topK, sampled), top, kind == 1u);
    if (wanted > 0u && wanted <= params.chunks && params.vocabulary > params.small) {
      for (var i = lane; i < params.chunks; i += THREADS) {
        let mine = bitcast<f32>(chunks[(first + i) * 4u]);
        var rank = 0u;
        for (var other = 0u; other < params.chunks; other++) {
          let theirs = bitcast<f32>(chunks[(first + other) * 4u]);
          rank += u32(theirs > mine || (theirs == mine && other < i));
        }
        if (rank == wanted - 1u) {
          bounds[kind] = mine;
        }
      }
    }
  }
  workgroupBarrier();
  if (lane != 0u) {
    return;
  }
  var total = 0.0;
  for (var i = 0u; i < THREADS; i++) {
    total += laneSums[i];
  }
  // All masked: there is nothing to draw, and the id means as little as that of a NaN.
  if (high == -FLOAT_MAX) {
    nonFinite = 1u;
  }
  let found = atomicLoad(&bestId);
  let id = select(found, 0u, found == NONE);
  let lnTotal = log(max(total, 1.0));
  let rowAt = row * ROW_STATE;
  rows[rowAt + ROW_ID] = id;
  rows[rowAt + ROW_NON_FINITE] = nonFinite;
  rows[rowAt + ROW_HIGH] = bitcast<u32>(high);
  rows[rowAt + ROW_LN_TOTAL] = bitcast<u32>(lnTotal);
  rows[rowAt + ROW_TEMPERATURE] = bitcast<u32>(temperature);

  var told = id;
  if ((flags & LOGITS_SCORED) != 0u) {
    told = min(step[at + 13u], params.vocabulary - 1u);
  }
  var logprob = 0.0;
  if ((flags & LOGITS_LOGPROB) != 0u) {
    logprob = logprobOf(bitcast<u32>(logits[row * params.vocabulary + told]), high, temperature, lnTotal);
  }
  results[record * 4u] = id;
  results[record * 4u + 1u] = nonFinite;
  results[record * 4u + 2u] = bitcast<u32>(logprob);
  results[record * 4u + 3u] = 0u;
  if ((flags & (LOGITS_WRITES_SLOT | LOGITS_SCORED)) == LOGITS_WRITES_SLOT) {
    lastIds[step[at + 1u]] = id;
  }

  let drawAt = row * JOB_STATE;
  jobs[drawAt + JOB_TASK] = 0u;
  if (sampled && nonFinite == 0u) {
    var floor = max(max(lowestLogit(high, scale, 44.0), low), bounds[0]);
    if (minP > 0.0) {
      floor = max(floor, max(high + log(minP) * temperature, lowestLogit(high, scale, 200.0)));
    }
    let filtered = topK < params.vocabulary || topP < 1.0 || minP > 0.0;
    jobs[drawAt + JOB_TASK] = select(TASK_DRAW, TASK_CUT, filtered);
    jobs[drawAt + JOB_LIMIT] = topK;
    jobs[drawAt + JOB_MASS_LIMIT] = bitcast<u32>(select(3.0e38, topP * total, topP < 1.0));
    jobs[drawAt + JOB_KEPT_MASS] = bitcast<u32>(total);
    setRange(drawAt, high, floor, floor, scale);
  }
  let topAt = (params.tileRows + row) * JOB_STATE;
  jobs[topAt + JOB_TASK] = 0u;
  if (top > 0u) {
    jobs[topAt + JOB_TASK] = select(0u, TASK_CUT, top < params.vocabulary && nonFinite == 0u);
    jobs[topAt + JOB_LIMIT] = top;
    jobs[topAt + JOB_MASS_LIMIT] = bitcast<u32>(3.0e38);
    setRange(topAt, high, bounds[1], max(bounds[1], low), scale);
  }
}

fn setRange(jobAt: u32, high: f32, floor: f32, rangeLow: f32, scale: f32) {
  // A range so small that its inverse overflows is one bucket; half of it can't overflow.
  let half = high * 0.5 - rangeLow * 0.5;
  var bucketScale = 0.0;
  if (params.vocabulary > params.small && half > 1e-30) {
    bucketScale = f32(BUCKETS) * 0.5 / half;
  }
  jobs[jobAt + JOB_FLOOR] = bitcast<u32>(floor);
  jobs[jobAt + JOB_RANGE_LOW] = bitcast<u32>(rangeLow);
  jobs[jobAt + JOB_BUCKET_SCALE] = bitcast<u32>(bucketScale);
  jobs[jobAt + JOB_LOG2_SCALE] = bitcast<u32>(scale);
  jobs[jobAt + JOB_BUCKET] = 0u;
  jobs[jobAt + JOB_LIST] = NONE;
  jobs[jobAt + JOB_GUESS] = NONE;
  jobs[jobAt + JOB_CUT_KEY] = 0u;
  jobs[jobAt + JOB_CUT_ID] = NONE;
  jobs[jobAt + JOB_CUT_BUCKET] = BUCKETS - 1u;
  jobs[jobAt + JOB_KEPT_COUNT] = 0u;
  jobs[jobAt + JOB_COUNT_ABOVE] = 0u;
  jobs[jobAt + JOB_ABOVE] = 0u;
}
