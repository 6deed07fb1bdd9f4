// Of the tokens of one bucket, in order (logit descending, id ascending), the first at which the running weight is over a
// mass or the running count reaches a limit: the last token that stays, or the one that is drawn. First a job's cut, then
// its draw, at the uniform's share of the weight of what stays; the draw's result.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32
//   rows, jobs, lists, picks  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   digits   [2 * tile rows, 3, 256] u32, scratch: counts, weights, their fractions
//
// A workgroup of THREADS a job: few, since a barrier costs SwiftShader as much as many turns of a loop. Tokens come from
// the bucket's list, or from the whole row where there is none or it overflowed. A radix search over the order's 64-bit
// key (logit-key.wgsl, then id), eight bits a level from the first bit in which the bucket's ends differ, until one
// token is left: count and weight of each digit are sums of integers, so the order of the list and of the threads
// doesn't matter. A weight is two words of fixed point, against the top of the bucket.
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
@group(0) @binding(4) var<storage, read> jobs: array<u32>;
@group(0) @binding(5) var<storage, read> lists: array<u32>;
@group(0) @binding(6) var<storage, read_write> picks: array<u32>;
@group(0) @binding(7) var<storage, read_write> results: array<u32>;
@group(0) @binding(8) var<storage, read_write> digits: array<atomic<u32>>;

const THREADS = 16u;
const DIGITS_OF_THREAD = 16u;

var<workgroup> laneCounts: array<u32, THREADS>;
var<workgroup> laneMasses: array<f32, THREADS>;
// From one thread to all: digit, tokens that have it, tokens before it, weight before it; or key and id; or a bucket.
var<workgroup> told: vec4<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let job = group.x;
  let row = job % params.tileRows;
  let record = params.firstRow + row;
  if (job >= 2u * params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let jobAt = job * JOB_STATE;
  let pickAt = job * PICK_STATE;
  let digitsAt = job * 768u;
  let rowAt = row * params.vocabulary;
  let high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  let floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  let low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  let bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  let scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  var task = jobs[jobAt + JOB_TASK];
  if (task == 0u) {
    return;
  }
  var bucket = jobs[jobAt + JOB_BUCKET];
  var list = jobs[jobAt + JOB_LIST];
  var kept = bitcast<f32>(jobs[jobAt + JOB_KEPT_MASS]);
  if (params.round == 1u) {
    if (lane == 0u) {
      told = vec4<u32>(picks[pickAt + PICK_PENDING], picks[pickAt + PICK_KEPT_MASS], 0u, 0u);
    }
    let pending = workgroupUniformLoad(&told);
    if (pending.x == NONE) {
      return;
    }
    task = TASK_DRAW;
    bucket = pending.x;
    kept = bitcast<f32>(pending.y);
    list = 2u;
  }
  var cutKey = select(0u, picks[pickAt + PICK_CUT_KEY], params.round == 1u);
  var cutId = select(NONE, picks[pickAt + PICK_CUT_ID], params.round == 1u);

  while (task != 0u) {
    var size = params.vocabulary;
    var listAt = NONE;
    if (list != NONE) {
      let count = lists[job * LISTS_OF_JOB + list * (LIST + 1u)];
      if (count <= LIST) {
        size = count;
        listAt = job * LISTS_OF_JOB + list * (LIST + 1u) + 1u;
      }
    }
    // The bucket's ends, with some room.
    var top = high;
    var bottom = floor;
    if (bucket > 0u) {
      top = min(high, high - (f32(bucket) - 0.05) / bucketScale);
    }
    if (bucketScale > 0.0 && bucket < BUCKETS - 1u) {
      bottom = max(floor, high - (f32(bucket) + 1.05) / bucketScale);
    }
    let topWeight = exp2((top - high) * scale);
    let above = bitcast<f32>(jobs[jobAt + JOB_ABOVE + bucket]);
    var limit = NONE;
    var mass = uniformOf(at) * kept;
    if (task == TASK_CUT) {
      limit = jobs[jobAt + JOB_LIMIT] - jobs[jobAt + JOB_COUNT_ABOVE];
      mass = bitcast<f32>(jobs[jobAt + JOB_MASS_LIMIT]);
    }
    mass = (mass - above) / topWeight;

    // Keys that match `key` in the bits of the masks are left; the digit at `shift` comes next, 32 and more in the logit's.
    let differing = logitKey(top) ^ logitKey(bottom);
    let keyShift = max(32u - countLeadingZeros(differing), 8u) - 8u;
    var masks = vec2<u32>(~((256u << keyShift) - 1u), 0u);
    var known = vec2<u32>(logitKey(top), 0u) & masks;
    var shift = 32u + keyShift;
    let bits = countLeadingZeros(size);
    let unit = exp2(f32(bits));
    var countBefore = 0u;
    var massBefore = 0.0;
    var left = 2u;
    while (left > 1u) {
      for (var i = lane; i < 768u; i += THREADS) {
        atomicStore(&digits[digitsAt + i], 0u);
      }
      storageBarrier();
      for (var i = lane; i < size; i += THREADS) {
        let id = idOf(listAt, i);
        let logit = logits[rowAt + id];
        let key = logitKey(logit);
        let differs = ((key ^ known.x) & masks.x) | ((id ^ known.y) & masks.y);
        if (differs == 0u && logit >= floor && trunc(placeOf(logit, high, low, bucketScale)) == f32(bucket)) {
          var digit = (id >> shift) & 255u;
          if (shift >= 32u) {
            digit = 255u - ((key >> (shift - 32u)) & 255u);
          }
          let weight = exp2((logit - top) * scale) * unit;
          let integer = trunc(weight);
          atomicAdd(&digits[digitsAt + digit], 1u);
          atomicAdd(&digits[digitsAt + 256u + digit], u32(integer));
          atomicAdd(&digits[digitsAt + 512u + digit], u32((weight - integer) * unit));
        }
      }
      storageBarrier();
      var laneCount = 0u;
      var laneMass = 0.0;
      for (var i = lane * DIGITS_OF_THREAD; i < (lane + 1u) * DIGITS_OF_THREAD; i++) {
        laneCount += atomicLoad(&digits[digitsAt + i]);
        laneMass += massOf(digitsAt + i, 1.0 / unit);
      }
      laneCounts[lane] = laneCount;
      laneMasses[lane] = laneMass;
      workgroupBarrier();
      if (lane == 0u) {
        pickDigit(digitsAt, countBefore, massBefore, limit, mass, 1.0 / unit);
      }
      let pick = workgroupUniformLoad(&told);
      left = pick.y;
      countBefore = pick.z;
      massBefore = bitcast<f32>(pick.w);
      if (shift >= 32u) {
        let digit = 255u << (shift - 32u);
        known.x = (known.x & ~digit) | ((255u - pick.x) << (shift - 32u));
        masks.x |= digit;
        // Ids are below 2^24.
        shift = select(max(shift, 40u) - 8u, 16u, shift == 32u);
      } else {
        known.y |= pick.x << shift;
        masks.y |= 255u << shift;
        shift = max(shift, 8u) - 8u;
      }
    }
    for (var i = lane; i < size; i += THREADS) {
      let id = idOf(listAt, i);
      let logit = logits[rowAt + id];
      let key = logitKey(logit);
      let differs = ((key ^ known.x) & masks.x) | ((id ^ known.y) & masks.y);
      if (differs == 0u && logit >= floor && trunc(placeOf(logit, high, low, bucketScale)) == f32(bucket)) {
        told = vec4<u32>(key, id, 0u, 0u);
      }
    }
    let found = workgroupUniformLoad(&told);

    if (task == TASK_CUT) {
      cutKey = found.x;
      cutId = found.y;
      kept = above + (massBefore + exp2((keyLogit(cutKey) - top) * scale)) * topWeight;
      var pending = NONE;
      task = 0u;
      if (job < params.tileRows) {
        task = TASK_DRAW;
        if (list != NONE) {
          let drawn = bucketAt(jobAt, uniformOf(at) * kept, bucket);
          if (drawn == jobs[jobAt + JOB_GUESS]) {
            list = 1u;
          } else if (drawn != bucket) {
            task = 0u;
            pending = drawn;
          }
          bucket = drawn;
        }
      }
      if (lane == 0u) {
        picks[pickAt + PICK_CUT_KEY] = cutKey;
        picks[pickAt + PICK_CUT_ID] = cutId;
        picks[pickAt + PICK_KEPT_COUNT] = jobs[jobAt + JOB_COUNT_ABOVE] + countBefore + 1u;
        picks[pickAt + PICK_KEPT_MASS] = bitcast<u32>(kept);
        picks[pickAt + PICK_PENDING] = pending;
      }
    } else {
      task = 0u;
      if (lane == 0u) {
        // Rounding may put the uniform's share just past the last token that stays.
        let past = found.x < cutKey || (found.x == cutKey && found.y > cutId);
        results[record * 4u] = select(found.y, cutId, past);
      }
    }
  }
}

fn idOf(listAt: u32, i: u32) -> u32 {
  if (listAt == NONE) {
    return i;
  }
  return lists[listAt + i];
}

fn massOf(at: u32, unit: f32) -> f32 {
  return (f32(atomicLoad(&digits[at + 256u])) + f32(atomicLoad(&digits[at + 512u])) * unit) * unit;
}

// The digit at which mass or limit is reached; where rounding lets none reach it, the last that is there.
fn pickDigit(digitsAt: u32, countBefore: u32, massBefore: f32, limit: u32, mass: f32, unit: f32) {
  var pick = vec3<u32>(0u, 0u, countBefore);
  var before = massBefore;
  var count = countBefore;
  var running = massBefore;
  var lanes = 0u;
  for (var i = 0u; i < THREADS; i++) {
    if (laneCounts[i] > 0u) {
      pick.z = count;
      before = running;
      lanes = i;
      count += laneCounts[i];
      running += laneMasses[i];
      if (running > mass || count >= limit) {
        break;
      }
    }
  }
  count = pick.z;
  running = before;
  for (var i = lanes * DIGITS_OF_THREAD; i < (lanes + 1u) * DIGITS_OF_THREAD; i++) {
    let some = atomicLoad(&digits[digitsAt + i]);
    if (some > 0u) {
      pick = vec3<u32>(i, some, count);
      before = running;
      count += some;
      running += massOf(digitsAt + i, unit);
      if (running > mass || count >= limit) {
        break;
      }
    }
  }
  told = vec4<u32>(pick, bitcast<u32>(before));
}
