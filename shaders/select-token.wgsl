// Of the tokens of one bucket, in order (logit descending, id ascending), the first at which the running weight is over a
// mass or the running count reaches a limit: the last token that stays, or the one that is drawn. First a job's cut, then
// its draw, at the uniform's share of the weight of what stays; the draw's result.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32
//   rows, jobs, lists  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A workgroup of 64 a job. Tokens come from the bucket's list, or from the whole row where there is none or it overflowed.
// A radix search over the order's 64-bit key (logit-key.wgsl, then id), eight bits a level, from the first bit in which
// the tokens differ, until one is left: count and weight of each digit are sums of integers, so the order of the list
// and of the threads doesn't matter. A weight is two words of fixed point, against the best of the bucket.
// Prepend step, logit-key, sampler-state, threefry and draw.
struct Params {
  vocabulary: u32,
  firstRow: u32,
  tileRows: u32,
  round: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read_write> jobs: array<u32>;
@group(0) @binding(5) var<storage, read> lists: array<u32>;
@group(0) @binding(6) var<storage, read_write> results: array<u32>;
@group(0) @binding(7) var<storage, read_write> lastIds: array<u32>;

const THREADS = 64u;

// What is searched for, and how far the search is; thread 0 writes it.
struct Search {
  task: u32,
  bucket: u32,
  // The list's place, or NONE: the row.
  list: u32,
  // Tokens to look at: of the list, or of the row.
  size: u32,
  // The order's key as far as it is known.
  key: u32,
  keyMask: u32,
  id: u32,
  idMask: u32,
  // The digit that comes next; 32 and more are of the key.
  shift: u32,
  // Tokens that the known part leaves.
  left: u32,
  limit: u32,
  mass: f32,
  // Weight before them.
  before: f32,
  countBefore: u32,
  // The best of the bucket, and fraction bits of a weight's words.
  top: f32,
  bits: u32,
}

var<workgroup> search: Search;
var<workgroup> best: atomic<u32>;
var<workgroup> worst: atomic<u32>;
var<workgroup> present: atomic<u32>;
var<workgroup> counts: array<atomic<u32>, 256>;
var<workgroup> masses: array<atomic<u32>, 256>;
var<workgroup> fractions: array<atomic<u32>, 256>;
var<workgroup> laneCounts: array<u32, 64>;
var<workgroup> laneMasses: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let job = group.x;
  let row = job % params.tileRows;
  let record = params.firstRow + row;
  if (job >= 2u * params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let jobAt = job * JOB_STATE;
  let rowAt = row * params.vocabulary;
  let high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  let floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  let low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  let bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  let scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  if (lane == 0u) {
    search.task = jobs[jobAt + JOB_TASK];
    if (search.task != 0u) {
      begin(job, at);
    }
  }
  loop {
    let whole = workgroupUniformLoad(&search);
    if (whole.task == 0u) {
      break;
    }
    // Which tokens are there?
    if (lane == 0u) {
      atomicStore(&best, 0u);
      atomicStore(&worst, NONE);
      atomicStore(&present, 0u);
    }
    workgroupBarrier();
    let bucket = f32(whole.bucket);
    var bestKey = 0u;
    var worstKey = NONE;
    var count = 0u;
    for (var i = lane; i < whole.size; i += THREADS) {
      let logit = logits[rowAt + idOf(whole.list, i)];
      if (logit >= floor && trunc(placeOf(logit, high, low, bucketScale)) == bucket) {
        let key = logitKey(logit);
        bestKey = max(bestKey, key);
        worstKey = min(worstKey, key);
        count += 1u;
      }
    }
    atomicMax(&best, bestKey);
    atomicMin(&worst, worstKey);
    atomicAdd(&present, count);
    workgroupBarrier();
    if (lane == 0u) {
      narrow(high, scale);
    }
    // Which of them is it?
    loop {
      let known = workgroupUniformLoad(&search);
      if (known.left <= 1u) {
        break;
      }
      for (var i = lane; i < BUCKETS; i += THREADS) {
        atomicStore(&counts[i], 0u);
        atomicStore(&masses[i], 0u);
        atomicStore(&fractions[i], 0u);
      }
      workgroupBarrier();
      let unit = exp2(f32(known.bits));
      for (var i = lane; i < known.size; i += THREADS) {
        let id = idOf(known.list, i);
        let logit = logits[rowAt + id];
        if (logit >= floor && trunc(placeOf(logit, high, low, bucketScale)) == bucket) {
          let key = logitKey(logit);
          if ((((key ^ known.key) & known.keyMask) | ((id ^ known.id) & known.idMask)) == 0u) {
            let digit = digitOf(key, id, known.shift);
            let weight = exp2((logit - known.top) * scale) * unit;
            let integer = trunc(weight);
            atomicAdd(&counts[digit], 1u);
            atomicAdd(&masses[digit], u32(integer));
            atomicAdd(&fractions[digit], u32((weight - integer) * unit));
          }
        }
      }
      workgroupBarrier();
      var laneCount = 0u;
      var laneMass = 0.0;
      for (var j = 0u; j < 4u; j++) {
        laneCount += atomicLoad(&counts[lane * 4u + j]);
        laneMass += massOf(lane * 4u + j, known.bits);
      }
      laneCounts[lane] = laneCount;
      laneMasses[lane] = laneMass;
      workgroupBarrier();
      if (lane == 0u) {
        takeDigit();
      }
    }
    // Its key and id.
    let known = workgroupUniformLoad(&search);
    for (var i = lane; i < known.size; i += THREADS) {
      let id = idOf(known.list, i);
      let logit = logits[rowAt + id];
      let key = logitKey(logit);
      if (
        (((key ^ known.key) & known.keyMask) | ((id ^ known.id) & known.idMask)) == 0u
          && logit >= floor && trunc(placeOf(logit, high, low, bucketScale)) == bucket
      ) {
        search.key = key;
        search.id = id;
      }
    }
    workgroupBarrier();
    if (lane == 0u) {
      finish(job, at, record, high, scale);
    }
  }
}

fn idOf(list: u32, i: u32) -> u32 {
  if (list == NONE) {
    return i;
  }
  return lists[list + 1u + i];
}

fn digitOf(key: u32, id: u32, shift: u32) -> u32 {
  if (shift >= 32u) {
    return 255u - ((key >> (shift - 32u)) & 255u);
  }
  return (id >> shift) & 255u;
}

fn massOf(digit: u32, bits: u32) -> f32 {
  let unit = exp2(-f32(bits));
  return (f32(atomicLoad(&masses[digit])) + f32(atomicLoad(&fractions[digit])) * unit) * unit;
}

// What is searched for, and where the bucket's tokens come from.
fn begin(job: u32, at: u32) {
  let jobAt = job * JOB_STATE;
  search.bucket = jobs[jobAt + JOB_BUCKET];
  search.mass = bitcast<f32>(jobs[jobAt + JOB_MASS_LIMIT]);
  search.limit = jobs[jobAt + JOB_LIMIT] - jobs[jobAt + JOB_COUNT_ABOVE];
  if (jobs[jobAt + JOB_TASK] == TASK_DRAW) {
    search.mass = uniformOf(at) * bitcast<f32>(jobs[jobAt + JOB_KEPT_MASS]);
    search.limit = NONE;
  }
  search.mass -= bitcast<f32>(jobs[jobAt + JOB_ABOVE + search.bucket]);
  search.list = jobs[jobAt + JOB_LIST];
  search.size = params.vocabulary;
  if (search.list != NONE) {
    search.list = job * LISTS_OF_JOB + search.list * (LIST + 1u);
    search.size = lists[search.list];
    if (search.size > LIST) {
      search.list = NONE;
      search.size = params.vocabulary;
    }
  }
}

// Starts the search among the tokens that are there.
fn narrow(high: f32, scale: f32) {
  let bestKey = atomicLoad(&best);
  let differing = bestKey ^ atomicLoad(&worst);
  search.left = atomicLoad(&present);
  search.shift = 32u + max(32u - countLeadingZeros(differing), 8u) - 8u;
  search.keyMask = ~((256u << (search.shift - 32u)) - 1u);
  if (differing == 0u) {
    search.shift = 16u;
    search.keyMask = NONE;
  }
  search.key = bestKey & search.keyMask;
  search.id = 0u;
  search.idMask = 0u;
  search.before = 0.0;
  search.countBefore = 0u;
  search.top = keyLogit(bestKey);
  search.bits = countLeadingZeros(search.left);
  search.mass /= exp2((search.top - high) * scale);
}

// Goes into the digit at which mass or limit is reached; where rounding lets none reach it, into the last that is there.
fn takeDigit() {
  var count = search.countBefore;
  var mass = search.before;
  var lanes = 0u;
  for (var i = 0u; i < THREADS; i++) {
    if (laneCounts[i] > 0u) {
      search.countBefore = count;
      search.before = mass;
      lanes = i;
      count += laneCounts[i];
      mass += laneMasses[i];
      if (mass > search.mass || count >= search.limit) {
        break;
      }
    }
  }
  count = search.countBefore;
  mass = search.before;
  var digit = 0u;
  for (var i = lanes * 4u; i < lanes * 4u + 4u; i++) {
    let some = atomicLoad(&counts[i]);
    if (some > 0u) {
      search.countBefore = count;
      search.before = mass;
      search.left = some;
      digit = i;
      count += some;
      mass += massOf(i, search.bits);
      if (mass > search.mass || count >= search.limit) {
        break;
      }
    }
  }
  if (search.shift >= 32u) {
    let shift = search.shift - 32u;
    search.key = (search.key & ~(255u << shift)) | ((255u - digit) << shift);
    search.keyMask |= 255u << shift;
    search.shift = select(32u + max(shift, 8u) - 8u, 16u, shift == 0u);
  } else {
    search.id |= digit << search.shift;
    search.idMask |= 255u << search.shift;
    search.shift = max(search.shift, 8u) - 8u;
  }
}

// A cut was found: what stays has this weight, and the draw comes next, now or in the next round. Or a draw was.
fn finish(job: u32, at: u32, record: u32, high: f32, scale: f32) {
  let jobAt = job * JOB_STATE;
  if (search.task == TASK_CUT) {
    let weight = exp2((keyLogit(search.key) - search.top) * scale);
    let above = bitcast<f32>(jobs[jobAt + JOB_ABOVE + search.bucket]);
    let kept = above + (search.before + weight) * exp2((search.top - high) * scale);
    jobs[jobAt + JOB_CUT_KEY] = search.key;
    jobs[jobAt + JOB_CUT_ID] = search.id;
    jobs[jobAt + JOB_KEPT_COUNT] = jobs[jobAt + JOB_COUNT_ABOVE] + search.countBefore + 1u;
    jobs[jobAt + JOB_KEPT_MASS] = bitcast<u32>(kept);
    search.task = 0u;
    if (job < params.tileRows) {
      search.task = TASK_DRAW;
      let cutBucket = search.bucket;
      var bucket = cutBucket;
      if (jobs[jobAt + JOB_LIST] != NONE) {
        bucket = bucketAt(jobAt, uniformOf(at) * kept, cutBucket);
      }
      jobs[jobAt + JOB_BUCKET] = bucket;
      if (bucket == jobs[jobAt + JOB_GUESS]) {
        jobs[jobAt + JOB_LIST] = 1u;
      } else if (bucket != cutBucket) {
        jobs[jobAt + JOB_LIST] = 2u;
        search.task = 0u;
      }
      jobs[jobAt + JOB_TASK] = TASK_DRAW;
      begin(job, at);
    } else {
      jobs[jobAt + JOB_TASK] = 0u;
    }
    return;
  }
  var key = search.key;
  var id = search.id;
  let cutKey = jobs[jobAt + JOB_CUT_KEY];
  let cutId = jobs[jobAt + JOB_CUT_ID];
  // Rounding may put the uniform's share just past the last token that stays.
  if (key < cutKey || (key == cutKey && id > cutId)) {
    key = cutKey;
    id = cutId;
  }
  search.task = 0u;
  jobs[jobAt + JOB_TASK] = 0u;
  results[record * 4u] = id;
  let flags = step[at + 2u];
  if ((flags & LOGITS_LOGPROB) != 0u) {
    let rowAt = job * ROW_STATE;
    let logit = logits[job * params.vocabulary + id];
    let temperature = bitcast<f32>(rows[rowAt + ROW_TEMPERATURE]);
    let logprob = logprobOf(bitcast<u32>(logit), high, temperature, bitcast<f32>(rows[rowAt + ROW_LN_TOTAL]));
    results[record * 4u + 2u] = bitcast<u32>(logprob);
  }
  if ((flags & LOGITS_WRITES_SLOT) != 0u) {
    lastIds[step[at + 1u]] = id;
  }
}
